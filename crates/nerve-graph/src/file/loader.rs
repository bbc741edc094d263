//! Loads graphs from texts and files, including the files of nested graphs.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path as FilePath, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use super::check::check;
use super::fields::Decode;
use super::problem::{GraphFileError, Problem, Problems};
use super::source_map::{Path, Report, SourceMap};
use super::tree::{MAX_BYTES, SyntaxError, Tree, quoted};
use super::types::{GraphFile, NodeDefinition};

/// Maximum depth of nested files.
const MAX_NESTING: usize = 16;
/// Maximum number of files of one graph; a file that is loaded twice counts twice.
const MAX_FILES: usize = 500;

/// Syntax of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

impl Format {
    /// Returns the format by file extension: JSON for `.json`, otherwise YAML.
    pub fn from_path(path: &FilePath) -> Format {
        match path.extension() {
            Some(ending) if ending.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Yaml,
        }
    }
}

impl GraphFile {
    /// Parses and checks a graph in YAML. `name` appears in messages as the file name.
    ///
    /// ```
    /// use nerve_graph::file::GraphFile;
    /// let file = GraphFile::from_yaml("graph: hello\nsteps:\n  - id: greet\n    node: shell\n    input: echo hi\n", "hello.yaml");
    /// assert_eq!(file.unwrap().steps[0].id, "greet");
    /// let error = GraphFile::from_yaml("graph: hello\nsteps:\n  - id: greet\n    nod: shell\n", "hello.yaml").unwrap_err();
    /// let message = error.to_string();
    /// assert!(message.starts_with("hello.yaml:4:5: a step has no field \"nod\" (did you mean `node`?)"), "{message}");
    /// ```
    ///
    /// # Errors
    /// All problems of the file: of its structure, or else of its meaning.
    pub fn from_yaml(text: &str, name: &str) -> Result<GraphFile, GraphFileError> {
        GraphFile::from_text(text, name, Format::Yaml, None)
    }

    /// Reads a graph from JSON, as [`GraphFile::from_yaml`] does from YAML.
    ///
    /// # Errors
    /// Same as [`GraphFile::from_yaml`].
    pub fn from_json(text: &str, name: &str) -> Result<GraphFile, GraphFileError> {
        GraphFile::from_text(text, name, Format::Json, None)
    }

    /// Reads a graph from a JSON value, as [`GraphFile::from_yaml`] does from a text. Messages contain paths (`steps[3].input`) instead of lines.
    ///
    /// # Errors
    /// Same as [`GraphFile::from_yaml`].
    pub fn from_value(value: Value) -> Result<GraphFile, GraphFileError> {
        let file = shape(SourceMap::new("graph", String::new(), Tree::from(&value)))?;
        file.check()?;
        Ok(file)
    }

    /// Returns the graph as a value for [`GraphFile::from_value`], with nested files inlined and canonical field names.
    pub fn to_value(&self) -> Value {
        // Only non-finite numbers have no JSON; they cannot occur in a file.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Parses and checks a graph as if it were a file in `folder`, which relative paths refer to.
    ///
    /// # Errors
    /// Same as [`GraphFile::from_yaml`], and files that cannot be read.
    pub fn from_text(
        text: &str,
        name: &str,
        format: Format,
        folder: Option<&FilePath>,
    ) -> Result<GraphFile, GraphFileError> {
        let mut file = parse(text, name, format)?;
        if let Some(folder) = folder {
            Loader::default().complete(&mut file, folder)?;
        }
        file.check()?;
        Ok(file)
    }

    /// Loads and checks a graph file and the files of nested graphs, which are inlined. Relative working directories become
    /// absolute.
    ///
    /// # Errors
    /// Same as [`GraphFile::from_text`].
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
        let mut file = parse(&text, &name, Format::from_path(path))?;
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(FilePath::new("."));
        let mut loader = Loader { chain: vec![(identity(path), name)], files: 1 };
        loader.complete(&mut file, folder)?;
        file.check()?;
        Ok(file)
    }

    /// Checks a graph that was built in code.
    ///
    /// # Errors
    /// All problems of the graph.
    pub fn check(&self) -> Result<(), GraphFileError> {
        let mut report = Report::new(&self.source_map);
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
    let tree = tree.map_err(|SyntaxError { position, message, hint }| Problem {
        file: name.to_string(),
        position,
        path: String::new(),
        message,
        hint: hint.map(ToString::to_string),
    })?;
    shape(SourceMap::new(name, text, tree))
}

fn shape(source_map: SourceMap) -> Result<GraphFile, GraphFileError> {
    let mut report = Report::new(&source_map);
    let file = source_map.tree().and_then(|tree| GraphFile::decode(tree, Path::Root, &mut report));
    report.problems.finish(file)
}

/// Returns the canonical path, which identifies a file.
fn identity(path: &FilePath) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn read(path: &FilePath) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(bytes)
        .map_err(|error| format!("not a text file: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// The chain of files from the first one to the current one.
#[derive(Default)]
struct Loader {
    chain: Vec<(PathBuf, String)>,
    files: usize,
}

impl Loader {
    /// Loads the files of nested graphs in `file`, and makes relative paths absolute. `folder` contains `file`.
    fn complete(&mut self, file: &mut GraphFile, folder: &FilePath) -> Result<(), GraphFileError> {
        let source_map = file.source_map.clone();
        let mut report = Report::new(&source_map);
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
                // The problem has been reported.
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
            report.error(at, format!("circular inclusion: {}", chain.join(" → ")));
            return Ok(None);
        }
        if self.chain.len() > MAX_NESTING || self.files >= MAX_FILES {
            let message =
                format!("too many files: at most {MAX_NESTING} levels and {MAX_FILES} files are supported");
            report.error(at, message);
            return Ok(None);
        }
        self.files += 1;
        let text = match read(path) {
            Ok(text) => text,
            Err(message) => {
                report.error(at, format!("{}: {message}", quoted(&name)));
                return Ok(None);
            }
        };
        let mut file = parse(&text, &name, Format::from_path(path))?;
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
    // Lexically, because the directory need not exist yet.
    let absolute = std::path::absolute(&joined).unwrap_or(joined);
    // Turns `/a/.` into `/a`.
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
