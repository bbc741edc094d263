//! Finds import circles: two files of a crate that import each other. One of them cannot be understood before the other.
//!
//! A file and its submodules count as one: a submodule may extend a type of the file with methods. An import of a re-export
//! counts as an import of the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

use crate::project::Project;
use crate::report::Outcome;
use crate::sources::{Source, read_sources};

/// Maximum number of re-exports between an import and the definition.
const MAX_DEPTH: usize = 8;

/// Path of a module from the root of its crate.
type ModulePath = Vec<String>;

/// The modules of a crate, with their imports.
#[derive(Default)]
struct Modules(BTreeMap<ModulePath, Vec<Import>>);

/// One imported item.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    /// The name by which the module knows the item.
    name: String,
    /// The item is part of the module's own interface, which is no use of it.
    is_reexport: bool,
}

/// Fails if there are circles.
///
/// # Errors
/// Names the files of each circle.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let sources = read_sources(project)?;
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for source in &sources {
        let Some((name, file)) = source.name.split_once("/src/") else { continue };
        crates.entry(name).or_default().add(file, source);
    }
    let mut circles = Vec::new();
    for (name, modules) in &crates {
        let paths = modules.circles().into_iter().map(|(one, other)| (one.join("::"), other.join("::")));
        circles.extend(paths.map(|(one, other)| format!("{name}: {one} and {other} import each other")));
    }
    if !circles.is_empty() {
        eprintln!("{}", circles.join("\n"));
        bail!("{} import circles: move what both files need to a file of its own", circles.len());
    }
    Ok(Outcome::Passed(format!("{} files", sources.len())))
}

impl Modules {
    fn add(&mut self, file: &str, source: &Source) {
        let mut path: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
        path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        self.0.entry(path).or_default().extend(imports(&source.text));
    }

    fn circles(&self) -> Vec<(ModulePath, ModulePath)> {
        let mut edges = BTreeSet::new();
        for (module, imports) in &self.0 {
            for import in imports.iter().filter(|import| !import.is_reexport) {
                edges.extend(self.resolve(module, &import.path, 0).map(|target| (module.clone(), target)));
            }
        }
        let is_circle = |(one, other): &&(ModulePath, ModulePath)| {
            one < other && !other.starts_with(one) && edges.contains(&(other.clone(), one.clone()))
        };
        edges.iter().filter(is_circle).cloned().collect()
    }

    /// Returns the module that defines an item; `None` if another crate does.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let (first, behind) = path.split_first()?;
        let (mut module, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), behind),
            "self" => (from.to_vec(), behind),
            "super" => {
                let levels = path.iter().take_while(|segment| *segment == "super").count();
                (from[..from.len().saturating_sub(levels)].to_vec(), &path[levels..])
            }
            _ if self.0.contains_key(&[from, &path[..1]].concat()) => (from.to_vec(), path),
            _ => return None,
        };
        while let Some((first, behind)) = rest.split_first() {
            module.push(first.clone());
            if !self.0.contains_key(&module) {
                module.pop();
                break;
            }
            rest = behind;
        }
        let Some((name, behind)) = rest.split_first() else { return Some(module) };
        match self.0.get(&module)?.iter().find(|import| import.name == *name) {
            Some(import) if depth < MAX_DEPTH => {
                self.resolve(&module, &[import.path.as_slice(), behind].concat(), depth + 1)
            }
            _ => Some(module),
        }
    }
}

/// Returns the imports of a file, without those of its unit tests.
fn imports(text: &str) -> Vec<Import> {
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().trim().to_string();
    let lines: Vec<String> = text.lines().map(without_comment).collect();
    let end = lines.iter().position(|line| line == "mod tests {").unwrap_or(lines.len());
    let mut imports = Vec::new();
    for statement in lines[..end].join("\n").split(';') {
        let begins_import = |line: &&str| line.starts_with("use ") || is_reexport(line);
        let mut lines = statement.lines().skip_while(|line| !begins_import(line));
        let Some(first) = lines.next() else { continue };
        let tree = lines.fold(first.to_string(), |tree, line| tree + line);
        let Some((_, tree)) = tree.split_once("use ") else { continue };
        add_tree(tree, &[], is_reexport(first), &mut imports);
    }
    imports
}

fn is_reexport(line: &str) -> bool {
    line.starts_with("pub use ") || (line.starts_with("pub(") && line.contains(") use "))
}

/// Adds the items of a part of a `use` declaration. `prefix`: the path before it.
fn add_tree(tree: &str, prefix: &[String], is_reexport: bool, imports: &mut Vec<Import>) {
    let (head, group) = tree.split_once('{').map_or((tree, None), |(head, group)| (head, Some(group)));
    let (head, name) = head.split_once(" as ").map_or((head, None), |(head, name)| (head, Some(name.trim())));
    let segments = head.split("::").map(str::trim).filter(|segment| !segment.is_empty() && *segment != "*");
    let mut path = prefix.to_vec();
    path.extend(segments.map(str::to_string));
    let Some(group) = group else {
        path.pop_if(|last| *last == "self" && !prefix.is_empty());
        let name = name.or(path.last().map(String::as_str)).unwrap_or_default().to_string();
        return imports.push(Import { path, name, is_reexport });
    };
    let mut depth = 0;
    let items = group.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth < 0 || (depth == 0 && c == ',')
    });
    items.filter(|item| !item.trim().is_empty()).for_each(|item| add_tree(item, &path, is_reexport, imports));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut modules = Modules::default();
        for (name, text) in files {
            modules.add(name, &Source { name: String::new(), text: (*text).to_string() });
        }
        let circles = modules.circles().into_iter();
        circles.map(|(one, other)| format!("{} {}", one.join("::"), other.join("::"))).collect()
    }

    #[test]
    fn circle_of_two_files_is_found_through_a_reexport() {
        let files = [
            ("lib.rs", "pub mod a;\nmod b;\npub use b::{B, c::{self, D}};\n"),
            ("a.rs", "use std::fmt;\n\nuse crate::{\n    B, // its type\n};\nstruct A;\n"),
            ("b/mod.rs", "mod c;\nuse super::a::A as Other;\n"),
            ("b/c.rs", "use super::Other;\n"),
        ];
        assert_eq!(circles(&files), ["a b"]);
        assert_eq!(circles(&files[..2]), [""; 0]);
    }

    #[test]
    fn submodules_tests_and_other_crates_make_no_circle() {
        let files = [
            ("main.rs", "mod a;\nuse a::A;\nuse std::a;\n"),
            ("a.rs", "mod tests;\nuse crate::b::B;\nuse crate::main;\n"),
            ("b.rs", "// use crate::a::A;\nuse a::A;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
