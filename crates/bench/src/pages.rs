//! Runs the programs of pages that need kube as tests; `watchkeeper` runs those of all others.

#[cfg(doctest)]
#[doc = include_str!("../../watchkeeper/src/coming_from_kube.md")]
struct ComingFromKube;
