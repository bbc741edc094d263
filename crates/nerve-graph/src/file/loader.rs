//! Loads graphs from texts and files, including the files of nested graphs.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path as FilePath, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use super::check::{check, undefined_nodes};
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
    /// All problems of the file: of its structure, and of the meaning of the parts that are well-formed.
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
        decode(SourceMap::new("graph", String::new(), Tree::from(&value))).check()
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
        let mut decoded = parse(text, name, format);
        if let Some(folder) = folder {
            decoded.complete(&mut Loader::default(), folder);
        }
        decoded.check()
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
        let text = match read(path) {
            Ok(text) => text,
            Err(message) => return Problems::from(whole(message)).finish(None),
        };
        let mut decoded = parse(&text, &name, Format::from_path(path));
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(FilePath::new("."));
        let mut loader = Loader { chain: vec![(identity(path), name)], files: 1 };
        decoded.complete(&mut loader, folder);
        decoded.check()
    }

    /// Returns the nodes that steps use and the file does not define, in file order. The session must have them.
    pub fn undefined_nodes(&self) -> Vec<Problem> {
        let mut report = Report::new(&self.source_map);
        undefined_nodes::find(self, &HashSet::new(), &mut report);
        report.problems.finish(Some(())).err().map(|found| found.problems().to_vec()).unwrap_or_default()
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

/// A graph, decoded as far as possible, and the problems of its structure.
struct Decoded {
    file: Option<GraphFile>,
    problems: Problems,
}

impl Decoded {
    /// Loads the files of nested graphs. `folder` contains the file.
    fn complete(&mut self, loader: &mut Loader, folder: &FilePath) {
        if let Some(file) = &mut self.file {
            loader.complete(file, folder, &mut self.problems);
        }
    }

    /// Checks the meaning of what could be decoded. Returns the graph if it has no problems at all.
    fn check(self) -> Result<GraphFile, GraphFileError> {
        let Decoded { file, mut problems } = self;
        if let Some(file) = &file {
            let mut report = Report::new(&file.source_map);
            report.has_broken_steps = problems.affect_steps();
            check(file, &mut report);
            problems.append_independent(report.problems);
        }
        let undefined = file.as_ref().map(GraphFile::undefined_nodes);
        problems.finish(file).map_err(|error| error.with_undefined_nodes(undefined.unwrap_or_default()))
    }
}

fn parse(text: &str, name: &str, format: Format) -> Decoded {
    let tree = match format {
        Format::Yaml => Tree::yaml(text),
        Format::Json => Tree::json(text),
    };
    match tree {
        Ok(tree) => decode(SourceMap::new(name, text, tree)),
        Err(SyntaxError { position, message, hint }) => {
            let hint = hint.map(ToString::to_string);
            let problem = Problem { file: name.to_string(), position, path: String::new(), message, hint };
            Decoded { file: None, problems: problem.into() }
        }
    }
}

fn decode(source_map: SourceMap) -> Decoded {
    let mut report = Report::new(&source_map);
    let file = source_map.tree().and_then(|tree| GraphFile::decode(tree, Path::Root, &mut report));
    Decoded { file, problems: report.problems }
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

/// Loads the files of nested graphs, and tracks the chain of files from the first one to the current one.
#[derive(Default)]
struct Loader {
    chain: Vec<(PathBuf, String)>,
    files: usize,
}

impl Loader {
    /// Loads the files of nested graphs in `file`, and makes relative paths absolute. `folder` contains `file`.
    fn complete(&mut self, file: &mut GraphFile, folder: &FilePath, problems: &mut Problems) {
        let source_map = file.source_map.clone();
        let mut report = Report::new(&source_map);
        let nodes = Path::Root.key("nodes");
        for (name, node) in &mut file.nodes {
            if let Some(cwd) = node.cwd_mut() {
                absolute(cwd, folder);
            }
            let NodeDefinition::Graph(node) = node else { continue };
            if let Some(graph) = &mut node.graph {
                self.complete(graph, folder, &mut report.problems);
            } else if let Some(wanted) = node.file.take() {
                let graph = self.include(&folder.join(&wanted), nodes.key(name).key("file"), &mut report);
                // An empty graph replaces one whose problem has been reported.
                node.graph = Some(Box::new(graph.unwrap_or_else(|| GraphFile::new("graph"))));
            }
        }
        problems.append(report.problems);
    }

    fn include(&mut self, path: &FilePath, at: Path<'_>, report: &mut Report<'_>) -> Option<GraphFile> {
        let name = path.display().to_string();
        let identity = identity(path);
        if let Some(first) = self.chain.iter().position(|(known, _)| *known == identity) {
            let mut chain: Vec<&str> = self.chain[first..].iter().map(|(_, name)| name.as_str()).collect();
            chain.push(&name);
            report.error(at, format!("circular inclusion: {}", chain.join(" → ")));
            return None;
        }
        if self.chain.len() > MAX_NESTING || self.files >= MAX_FILES {
            let message =
                format!("too many files: at most {MAX_NESTING} levels and {MAX_FILES} files are supported");
            report.error(at, message);
            return None;
        }
        self.files += 1;
        let text = match read(path) {
            Ok(text) => text,
            Err(message) => {
                report.error(at, format!("{}: {message}", quoted(&name)));
                return None;
            }
        };
        let mut decoded = parse(&text, &name, Format::from_path(path));
        self.chain.push((identity, name));
        decoded.complete(self, path.parent().unwrap_or(FilePath::new(".")));
        self.chain.pop();
        report.problems.append(decoded.problems);
        decoded.file
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
