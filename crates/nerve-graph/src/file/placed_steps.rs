//! The steps of a graph that are placed on machines of a cluster.

use super::types::{GraphFile, NodeDefinition};

impl GraphFile {
    /// Returns the id of the first step with a placement, also in nested graphs.
    pub fn placed_step(&self) -> Option<&str> {
        let own = self.steps.iter().find(|step| step.on.is_some()).map(|step| step.id.as_str());
        own.or_else(|| self.nested_graphs().find_map(GraphFile::placed_step))
    }

    /// Returns the graphs that are nodes of this one.
    pub fn nested_graphs(&self) -> impl Iterator<Item = &GraphFile> {
        self.nodes.values().filter_map(|node| match node {
            NodeDefinition::Graph(nested) => nested.graph.as_deref(),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::file::{GraphFileError, OnHostLost, Placement};

    fn file(step: &str) -> Result<GraphFile, GraphFileError> {
        GraphFile::from_yaml(&format!("graph: g\nsteps:\n  - {{id: a, node: n, {step}}}\n"), "g.yaml")
    }

    #[test]
    fn placement_is_any_a_name_or_labels() {
        let placement = |text: &str| file(text).unwrap().steps[0].on.clone();
        assert_eq!(placement("on: any"), Some(Placement::Any));
        assert_eq!(placement("on: build-1"), Some(Placement::Machine("build-1".into())));
        let labels = Placement::Labels(["gpu", "linux"].map(String::from).into());
        assert_eq!(placement("on: {labels: [linux, gpu]}"), Some(labels.clone()));
        assert_eq!(serde_json::to_value(&labels).unwrap(), json!({ "labels": ["gpu", "linux"] }));
        for invalid in
            ["on: No Name", "on: {labels: []}", "on: {machine: x}", "on: [a]", "on_host_lost: maybe"]
        {
            assert!(file(invalid).is_err(), "{invalid}");
        }
        let back = GraphFile::from_value(file("on: {labels: gpu}, on_host_lost: retry").unwrap().to_value());
        let step = &back.unwrap().steps[0];
        assert_eq!(step.on_host_lost, OnHostLost::Retry);
        assert_eq!(step.on, Some(Placement::Labels(["gpu".to_string()].into())));
    }

    #[test]
    fn placed_step_is_found_in_nested_graphs() {
        assert_eq!(file("on: any").unwrap().placed_step(), Some("a"));
        assert_eq!(file("on_host_lost: fail").unwrap().placed_step(), None);
        let nested = "graph: g\nnodes:\n  in: {type: graph, graph: {graph: in, steps: [{id: b, node: n, on: any}]}}\nsteps: [{id: a, node: in}]\n";
        assert_eq!(GraphFile::from_yaml(nested, "g.yaml").unwrap().placed_step(), Some("b"));
    }

    #[test]
    fn value_excludes_node_and_input() {
        let check =
            |step: &str| GraphFile::from_yaml(&format!("graph: g\nsteps: [{{id: a, {step}}}]\n"), "g");
        let file = check("value: null").unwrap();
        assert_eq!(GraphFile::from_value(file.to_value()).unwrap().steps[0].value, Some(json!(null)));
        for invalid in ["value: 1, node: n", "value: 1, input: x", "value: 1, gate: {question: q}"] {
            assert!(check(invalid).is_err(), "{invalid}");
        }
    }
}
