//! Checks the meaning of a graph file that is well-formed. Pure.

mod limits;
mod names;
mod nodes;
mod order;
mod steps;
pub(super) mod undefined_nodes;

use nerve_types::name;

use self::order::StepOrder;
use super::source_map::{Path, Report, SourceMap};
use super::types::GraphFile;

/// Reports all problems of a graph and its nested graphs.
pub(super) fn check(file: &GraphFile, report: &mut Report<'_>) {
    if let Err(error) = name::check("graph", &file.graph) {
        report.error(Path::Root.key("graph"), error.to_string());
    }
    limits::count(file.max_parallel, 1..=limits::MAX_PARALLEL, Path::Root.key("max_parallel"), report);
    limits::budget(&file.budget, Path::Root.key("budget"), report);
    for name in file.inputs.iter().flatten().map(|(name, _)| name).filter(|name| name.trim().is_empty()) {
        report.error(Path::Root.key("inputs").name(name), "an input needs a name");
    }
    nodes::check(file, report);
    let order = StepOrder::new(file, report);
    steps::check(file, report);
    order::check_shared_terminals(file, &order, report);
    names::check(file, &order, report);
}

/// Returns the source map of a nested graph: its own, or the outer one with a prefix.
fn nested_source_map(inner: &GraphFile, outer: &SourceMap, at: Path<'_>) -> SourceMap {
    if inner.source_map.is_known() { inner.source_map.clone() } else { outer.nested(at) }
}
