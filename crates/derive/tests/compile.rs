//! Wrong attributes are compile errors that point at the wrong token.

#[test]
fn wrong_attributes_are_pointed_at() {
    trybuild::TestCases::new().compile_fail("tests/compile/*.rs");
}
