//! From texts and files to a graph that is checked: reads the files of graphs in it, and makes folders absolute.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path as FilePath, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use super::check::check;
use super::source_map::{Origin, Path, Report};
use super::problem::{GraphFileError, Problem, Problems};
use super::fields::Read;
use super::tree::{MAX_BYTES, Tree, Unreadable, quoted};
use super::types::{GraphFile, NodeDefinition};

/// Graphs in graphs in files of their own.
const MAX_NESTING: usize = 16;
/// Files of one graph, those that are read twice counted twice.
const MAX_FILES: usize = 500;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

impl Format {
    /// By the ending of a file's name: JSON for `.json`, else YAML.
    pub fn of(path: &FilePath) -> Format {
        match path.extension() {
            Some(ending) if ending.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Yaml,
        }
    }
}

impl GraphFile {
    /// Reads and checks a graph. `name` is what messages call the text.
    ///
    /// ```
    /// use nerve_core::graph::file::GraphFile;
    /// let file = GraphFile::from_yaml("graph: hello\nsteps:\n  - id: greet\n    node: shell\n    input: echo hi\n", "hello.yaml");
    /// assert_eq!(file.unwrap().steps[0].id, "greet");
    /// let error = GraphFile::from_yaml("graph: hello\nsteps:\n  - id: greet\n    nod: shell\n", "hello.yaml").unwrap_err();
    /// let said = error.to_string();
    /// assert!(said.starts_with("hello.yaml:4:5: a step has no field \"nod\" (did you mean `node`?)"), "{said}");
    /// ```
    ///
    /// # Errors
    /// All that is wrong with it: first with its shape, then with what it says.
    pub fn from_yaml(text: &str, name: &str) -> Result<GraphFile, GraphFileError> {
        GraphFile::from_text(text, name, Format::Yaml, None)
    }

    /// As [`GraphFile::from_yaml`] of JSON.
    ///
    /// # Errors
    /// As there.
    pub fn from_json(text: &str, name: &str) -> Result<GraphFile, GraphFileError> {
        GraphFile::from_text(text, name, Format::Json, None)
    }

    /// As [`GraphFile::from_yaml`] of a value; messages have paths (`steps[3].input`) instead of lines.
    ///
    /// # Errors
    /// As there.
    pub fn from_value(value: Value) -> Result<GraphFile, GraphFileError> {
        let file = shape(Origin::new("graph", String::new(), Tree::from(&value)))?;
        file.check()?;
        Ok(file)
    }

    /// The graph as a value that [`GraphFile::from_value`] reads: without the files it came from, and with its short spellings.
    pub fn to_value(&self) -> Value {
        // Nothing in it has no JSON but numbers that no file can have, and those become null.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads and checks a graph as if it were a file in `folder`: files and folders in it are relative to that.
    ///
    /// # Errors
    /// As [`GraphFile::from_yaml`]; and files that cannot be read.
    pub fn from_text(
        text: &str,
        name: &str,
        format: Format,
        folder: Option<&FilePath>,
    ) -> Result<GraphFile, GraphFileError> {
        let mut file = parse(text, name, format)?;
        if let Some(folder) = folder {
            Loading::default().complete(&mut file, folder)?;
        }
        file.check()?;
        Ok(file)
    }

    /// Reads and checks a graph file, and the files of the graphs in it, which then are part of it. Relative folders of nodes become
    /// absolute.
    ///
    /// # Errors
    /// As [`GraphFile::from_text`].
    pub fn load(path: &FilePath) -> Result<GraphFile, GraphFileError> {
        let name = path.display().to_string();
        let whole = |message: String| Problem {
            file: name.clone(),
            position: None,
            path: String::new(),
            message,
            hint: None,
        };
        let text = read(path).map_err(whole)?;
        let mut file = parse(&text, &name, Format::of(path))?;
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(FilePath::new("."));
        let mut loading = Loading { chain: vec![(identity(path), name)], files: 1 };
        loading.complete(&mut file, folder)?;
        file.check()?;
        Ok(file)
    }

    /// Checks a graph that was made by hand.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn check(&self) -> Result<(), GraphFileError> {
        let mut report = Report::new(&self.origin);
        check(self, &mut report);
        report.problems.finish(Some(()))
    }
}

impl<'de> Deserialize<'de> for GraphFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GraphFile, D::Error> {
        GraphFile::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn parse(text: &str, name: &str, format: Format) -> Result<GraphFile, GraphFileError> {
    let tree = match format {
        Format::Yaml => Tree::yaml(text),
        Format::Json => Tree::json(text),
    };
    let tree = tree.map_err(|Unreadable { position, message, hint }| Problem {
        file: name.to_string(),
        position,
        path: String::new(),
        message,
        hint: hint.map(ToString::to_string),
    })?;
    shape(Origin::new(name, text, tree))
}

fn shape(origin: Origin) -> Result<GraphFile, GraphFileError> {
    let mut report = Report::new(&origin);
    let file = origin.tree().and_then(|tree| GraphFile::read(tree, Path::Root, &mut report));
    report.problems.finish(file)
}

/// Which file it is, however it is called.
fn identity(path: &FilePath) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn read(path: &FilePath) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    String::from_utf8(bytes)
        .map_err(|error| format!("it is not a text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// Files on the way from the first one to the one that is read now.
#[derive(Default)]
struct Loading {
    chain: Vec<(PathBuf, String)>,
    files: usize,
}

impl Loading {
    /// Reads the files of the graphs in `file`, and makes relative folders absolute. `folder` is where `file` is.
    fn complete(&mut self, file: &mut GraphFile, folder: &FilePath) -> Result<(), GraphFileError> {
        let origin = file.origin.clone();
        let mut report = Report::new(&origin);
        let nodes = Path::Root.key("nodes");
        for (name, node) in &mut file.nodes {
            if let Some(cwd) = node.cwd_mut() {
                absolute(cwd, folder);
            }
            let NodeDefinition::Graph(node) = node else { continue };
            if let Some(graph) = &mut node.graph {
                let inner = self.complete(graph, folder);
                report.problems.extend(inner);
            } else if let Some(wanted) = node.file.take() {
                match self.include(&folder.join(&wanted), nodes.key(name).key("file"), &mut report) {
                    Ok(graph) => node.graph = graph.map(Box::new),
                    Err(error) => report.problems.extend(Err(error)),
                }
                // Said already that it cannot be read.
                if node.graph.is_none() {
                    node.file = Some(wanted);
                }
            }
        }
        report.problems.finish(Some(()))
    }

    fn include(
        &mut self,
        path: &FilePath,
        at: Path<'_>,
        report: &mut Report<'_>,
    ) -> Result<Option<GraphFile>, GraphFileError> {
        let name = path.display().to_string();
        let identity = identity(path);
        if let Some(first) = self.chain.iter().position(|(known, _)| *known == identity) {
            let mut chain: Vec<&str> = self.chain[first..].iter().map(|(_, name)| name.as_str()).collect();
            chain.push(&name);
            report.say(at, format!("the file contains itself: {}", chain.join(" → ")));
            return Ok(None);
        }
        if self.chain.len() > MAX_NESTING || self.files >= MAX_FILES {
            let message =
                format!("too many files: graphs go {MAX_NESTING} files deep and have at most {MAX_FILES}");
            report.say(at, message);
            return Ok(None);
        }
        self.files += 1;
        let text = match read(path) {
            Ok(text) => text,
            Err(message) => {
                report.say(at, format!("{}: {message}", quoted(&name)));
                return Ok(None);
            }
        };
        let mut file = parse(&text, &name, Format::of(path))?;
        self.chain.push((identity, name));
        let completed = self.complete(&mut file, path.parent().unwrap_or(FilePath::new(".")));
        self.chain.pop();
        completed?;
        Ok(Some(file))
    }
}

fn absolute(cwd: &mut Option<String>, folder: &FilePath) {
    let Some(cwd) = cwd else { return };
    let joined = folder.join(&*cwd);
    // Lexically: the folder need not be there yet.
    let absolute = std::path::absolute(&joined).unwrap_or(joined);
    // `/a/.` is `/a`.
    let absolute: PathBuf = absolute.components().collect();
    *cwd = absolute.to_string_lossy().into_owned();
}

impl Problems {
    fn extend(&mut self, result: Result<(), GraphFileError>) {
        if let Err(error) = result {
            self.append(error.into());
        }
    }
}
