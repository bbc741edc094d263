//! The current graph of the REPL: a graph definition that may still be incomplete.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_commands::failure::{FAILED, Failure, NOT_FOUND, USAGE};
use nerve_graph::file::{Format, GraphFile};
use serde_json::{Map, Value, json};

/// A graph under construction.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Content in the format of a graph file.
    definition: Map<String, Value>,
    /// File that it was loaded from or saved to.
    path: Option<PathBuf>,
}

impl Draft {
    /// Creates a graph without steps.
    ///
    /// # Errors
    /// The id is invalid.
    pub(super) fn new(id: &str) -> Result<Draft, Failure> {
        nerve_types::name::check("graph", id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
        Ok(Draft { definition: object(json!({ "graph": id, "steps": [] })), path: None })
    }

    /// Loads a graph file and the graphs it includes.
    ///
    /// # Errors
    /// All problems of the file, with line and column.
    pub(super) fn load(path: &Path) -> Result<Draft> {
        let file = GraphFile::load(path).map_err(|error| Failure::new(USAGE, error.to_string()))?;
        let definition = object(file.to_value());
        Ok(Draft { definition, path: Some(path.to_path_buf()) })
    }

    /// Creates a draft from a definition, for example of a registered graph.
    pub(super) fn from_definition(definition: Value) -> Draft {
        Draft { definition: object(definition), path: None }
    }

    /// Returns the graph id.
    pub(super) fn id(&self) -> &str {
        ["graph", "graph_id", "id"]
            .iter()
            .find_map(|key| self.definition.get(*key)?.as_str())
            .unwrap_or_default()
    }

    /// Returns the ids of the steps, in the order of the file.
    pub(super) fn step_ids(&self) -> Vec<String> {
        self.step_values().iter().map(|step| id_of(step).to_string()).collect()
    }

    /// Validates the definition.
    ///
    /// # Errors
    /// All problems of the definition.
    pub(super) fn graph_file(&self) -> Result<GraphFile, Failure> {
        GraphFile::from_value(Value::Object(self.definition.clone()))
            .map_err(|error| Failure::new(USAGE, error.to_string()))
    }

    /// Appends a step.
    ///
    /// # Errors
    /// The id is taken, or a step in `after` does not exist.
    pub(super) fn add_step(
        &mut self,
        id: &str,
        node: &str,
        input: &str,
        after: &[String],
    ) -> Result<(), Failure> {
        if self.step_ids().iter().any(|known| known == id) {
            let failure = Failure::new(USAGE, format!("step '{id}' already exists"));
            return Err(failure.hint(format!("remove it with 'step remove {id}'")));
        }
        after.iter().try_for_each(|id| self.require_step(id))?;
        let mut step = Map::from_iter([("id".to_string(), json!(id)), ("node".to_string(), json!(node))]);
        if !input.is_empty() {
            step.insert("input".to_string(), json!(input));
        }
        if !after.is_empty() {
            step.insert("depends_on".to_string(), json!(after));
        }
        self.edit_steps(|steps| steps.push(Value::Object(step)));
        Ok(())
    }

    /// Removes a step. Returns the steps that depended on it.
    ///
    /// # Errors
    /// The step does not exist.
    pub(super) fn remove_step(&mut self, id: &str) -> Result<Vec<String>, Failure> {
        self.require_step(id)?;
        Ok(self.edit_steps(|steps| {
            steps.retain(|step| id_of(step) != id);
            let mut dependents = Vec::new();
            for step in steps {
                let mut dependencies = dependencies(step);
                let count = dependencies.len();
                dependencies.retain(|other| other != id);
                if dependencies.len() < count {
                    dependents.push(id_of(step).to_string());
                    set_dependencies(step, dependencies);
                }
            }
            dependents
        }))
    }

    /// Makes each step depend on the one before it. Existing dependencies stay.
    ///
    /// # Errors
    /// A step does not exist or is listed twice.
    pub(super) fn chain(&mut self, ids: &[String]) -> Result<(), Failure> {
        ids.iter().try_for_each(|id| self.require_step(id))?;
        if let Some(duplicate) = ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
            return Err(Failure::new(
                USAGE,
                format!("step '{}' is listed twice: a step cannot depend on itself", duplicate.1),
            ));
        }
        self.edit_steps(|steps| {
            for pair in ids.windows(2) {
                let Some(step) = steps.iter_mut().find(|step| id_of(step) == pair[1]) else { continue };
                let mut dependencies = dependencies(step);
                if !dependencies.contains(&pair[0]) {
                    dependencies.push(pair[0].clone());
                    set_dependencies(step, dependencies);
                }
            }
        });
        Ok(())
    }

    /// Returns the steps that no other step depends on. Their results are the graph's results.
    pub(super) fn output_steps(&self) -> Vec<String> {
        let required: Vec<String> = self.step_values().iter().flat_map(dependencies).collect();
        self.step_ids().into_iter().filter(|id| !required.contains(id)).collect()
    }

    /// Returns the text of a graph file.
    ///
    /// # Errors
    /// A value cannot be represented in the format.
    pub(super) fn serialize(&self, format: Format) -> Result<String> {
        // A valid graph is written in the order of the schema.
        match (self.graph_file(), format) {
            (Ok(file), Format::Json) => Ok(serde_json::to_string_pretty(&file)? + "\n"),
            (Ok(file), Format::Yaml) => Ok(serde_saphyr::to_string(&file)?),
            (Err(_), Format::Json) => Ok(serde_json::to_string_pretty(&self.definition)? + "\n"),
            (Err(_), Format::Yaml) => Ok(serde_saphyr::to_string(&self.definition)?),
        }
    }

    /// Saves the graph atomically to `path`, or to the file it came from. Returns the file.
    ///
    /// # Errors
    /// There is no file to save to, or it cannot be written.
    pub(super) fn save(&mut self, path: Option<&Path>) -> Result<PathBuf> {
        let path = path.map(Path::to_path_buf).or_else(|| self.path.clone());
        let path = path.ok_or_else(|| {
            Failure::new(USAGE, "no file given").hint("name one with 'graph save FILE', .yaml or .json")
        })?;
        let text = self.serialize(Format::from_path(&path))?;
        let context = || format!("cannot write {}", path.display());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let message = format!("{}: no directory '{}'", context(), folder.display());
            return Err(Failure::new(FAILED, message).into());
        }
        // Keeps the permissions of an existing file; otherwise the umask applies.
        let mode = fs::metadata(&path).map_or(0o666, |known| known.permissions().mode() & 0o7777);
        let mut builder = tempfile::Builder::new();
        let mut file = builder
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(folder)
            .with_context(context)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(context)?;
        file.persist(&path).with_context(context)?;
        self.path = Some(path.clone());
        Ok(path)
    }

    fn require_step(&self, id: &str) -> Result<(), Failure> {
        let steps = self.step_ids();
        if steps.iter().any(|step| step == id) {
            return Ok(());
        }
        let hint = if steps.is_empty() {
            "the graph has no steps".to_string()
        } else {
            format!("steps: {}", steps.join(", "))
        };
        Err(Failure::new(NOT_FOUND, format!("no step '{id}'")).hint(hint))
    }

    fn step_values(&self) -> &[Value] {
        self.definition.get("steps").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn edit_steps<T>(&mut self, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        let mut steps = match self.definition.remove("steps") {
            Some(Value::Array(steps)) => steps,
            _ => Vec::new(),
        };
        let result = change(&mut steps);
        self.definition.insert("steps".to_string(), Value::Array(steps));
        result
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn id_of(step: &Value) -> &str {
    ["id", "step_id"].iter().find_map(|key| step.get(*key)?.as_str()).unwrap_or_default()
}

/// Returns the ids in `depends_on`, which is one id or a list.
fn dependencies(step: &Value) -> Vec<String> {
    match step.get("depends_on") {
        Some(Value::String(id)) => vec![id.clone()],
        Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).map(str::to_string).collect(),
        _ => Vec::new(),
    }
}

fn set_dependencies(step: &mut Value, dependencies: Vec<String>) {
    let Value::Object(fields) = step else { return };
    if dependencies.is_empty() {
        fields.remove("depends_on");
    } else {
        fields.insert("depends_on".to_string(), json!(dependencies));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    fn three() -> Draft {
        let mut draft = Draft::new("review").unwrap();
        draft.add_step("a", "me", "one", &[]).unwrap();
        draft.add_step("b", "me", "after {{ steps.a }}", &ids(&["a"])).unwrap();
        draft.add_step("c", "me", "", &[]).unwrap();
        draft
    }

    #[test]
    fn adds_chains_and_removes_steps() {
        let mut draft = three();
        assert_eq!(draft.output_steps(), ["b", "c"]);
        draft.chain(&ids(&["a", "b", "c"])).unwrap();
        assert_eq!(draft.output_steps(), ["c"]);
        assert_eq!(draft.definition["steps"][1]["depends_on"], json!(["a"]), "no duplicates");
        assert_eq!(draft.remove_step("b").unwrap(), ["c"]);
        assert_eq!(draft.step_ids(), ["a", "c"]);
        assert_eq!(draft.definition["steps"][1].get("depends_on"), None);
    }

    #[test]
    fn invalid_edits_change_nothing() {
        let mut draft = three();
        let before = draft.definition.clone();
        assert!(draft.add_step("a", "me", "x", &[]).unwrap_err().message.contains("already"));
        let unknown = draft.add_step("d", "me", "x", &ids(&["z"])).unwrap_err();
        assert_eq!(
            (unknown.message.as_str(), unknown.hint.as_deref()),
            ("no step 'z'", Some("steps: a, b, c"))
        );
        assert!(draft.remove_step("z").is_err());
        assert!(draft.chain(&ids(&["a", "z"])).is_err());
        assert!(draft.chain(&ids(&["a", "b", "a"])).unwrap_err().message.contains("twice"));
        assert_eq!(draft.definition, before);
        assert!(Draft::new("No Good").is_err());
    }

    #[test]
    fn saved_graph_loads_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["g.yaml", "g.json"] {
            let mut draft = three();
            let path = draft.save(Some(&dir.path().join(name))).unwrap();
            let mut loaded = Draft::load(&path).unwrap();
            assert_eq!(loaded.graph_file().unwrap(), draft.graph_file().unwrap(), "{name}");
            loaded.remove_step("c").unwrap();
            assert_eq!(loaded.save(None).unwrap(), path);
            assert_eq!(Draft::load(&path).unwrap().step_ids(), ["a", "b"]);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary files remain");
        assert!(three().save(None).is_err());
        assert!(three().save(Some(&dir.path().join("no/such/folder.yaml"))).is_err());
    }

    #[test]
    fn yaml_is_readable() {
        let text = three().serialize(Format::Yaml).unwrap();
        assert!(text.starts_with("graph: review\nsteps:\n"), "{text}");
        assert!(text.contains("id: b\n") && text.contains("after {{ steps.a }}"), "{text}");
    }

    #[test]
    fn invalid_file_reports_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        fs::write(&path, "graph: g\nsteps:\n  - id: a\n    nod: me\n").unwrap();
        let error = Failure::from_error(&Draft::load(&path).unwrap_err());
        assert!(error.message.contains("g.yaml:4:5"), "{error}");
    }
}
