//! Import cycles between the top-level modules of a crate, derived from `crate::…` paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::CYCLE;
use crate::sources::Crate;

/// The imports of each module.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Reports the largest cycle of each crate.
pub(crate) fn report(workspace: &[Crate], complaints: &mut Vec<String>) {
    println!("import cycles:");
    for krate in workspace {
        let graph = imports(krate);
        let Some(largest) = cycles(&graph).into_iter().max_by_key(BTreeSet::len) else {
            continue;
        };
        let names: Vec<&str> = largest.iter().map(String::as_str).collect();
        let (count, all) = (names.len(), graph.len());
        println!(
            "    {}: {count} of {all} modules ({})",
            krate.name,
            names.join(", ")
        );
        if count > CYCLE {
            complaints.push(format!(
                "an import cycle of {} has {count} modules; {CYCLE} are allowed",
                krate.name
            ));
        }
    }
}

fn imports(krate: &Crate) -> Graph {
    let module_of = |file: &crate::sources::File| {
        let first = file
            .place
            .components()
            .next()?
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        let name = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
        (!matches!(&*name, "lib" | "main" | "bin")).then_some(name)
    };
    let modules: BTreeSet<String> = krate.files.iter().filter_map(module_of).collect();
    let exports = exports(krate, &modules);
    let mut graph: Graph = modules
        .iter()
        .map(|name| (name.clone(), BTreeSet::new()))
        .collect();
    for file in &krate.files {
        let Some(own) = module_of(file).filter(|_| !is_test(file)) else {
            continue;
        };
        for name in names_after_crate(&file.code()) {
            let target = modules.get(&name).or_else(|| exports.get(&name)).cloned();
            if let Some(target) = target.filter(|target| *target != own) {
                graph.entry(own.clone()).or_default().insert(target);
            }
        }
    }
    graph
}

fn is_test(file: &crate::sources::File) -> bool {
    file.place
        .components()
        .any(|part| matches!(&*part.as_os_str().to_string_lossy(), "tests" | "tests.rs"))
}

/// The names the root of a crate re-exports, with their modules.
fn exports(krate: &Crate, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let roots = krate
        .files
        .iter()
        .filter(|file| file.place.to_string_lossy() == "lib.rs");
    for root in roots {
        let code = root.code();
        for statement in code.split(';') {
            let Some((_, path)) = statement.split_once("use ") else {
                continue;
            };
            let path = path
                .trim()
                .trim_start_matches("self::")
                .trim_start_matches("crate::");
            let Some((module, names)) = path.split_once("::") else {
                continue;
            };
            if modules.contains(module) {
                for name in words(names) {
                    exports.insert(name, module.to_owned());
                }
            }
        }
    }
    exports
}

/// The first names of all paths that start with `crate::`.
fn names_after_crate(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => names.extend(first_names(list)),
            None => names.extend(words(rest).next()),
        }
    }
    names
}

/// The names in a list of imports, without nested ones.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut current) = (1_usize, Vec::new(), String::new());
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.extend(words(&std::mem::take(&mut current)).next()),
            other if depth == 1 => current.push(other),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.extend(words(&current).next());
    names
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The strongly connected sets of more than one module.
fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|name| (name, reachable(graph, name))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (name, from_here) in &reached {
        let circle = from_here.iter().filter(|other| reached[other].contains(*name));
        let circle: BTreeSet<String> = circle.cloned().collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn reachable(graph: &Graph, start: &str) -> BTreeSet<String> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![start.to_owned()]);
    while let Some(name) = waiting.pop() {
        for next in graph.get(&name).into_iter().flatten() {
            if seen.insert(next.clone()) {
                waiting.push(next.clone());
            }
        }
    }
    seen
}
