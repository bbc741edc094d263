//! What is wrong with a graph whose shape is right. Pure.

mod limits;
mod names;
mod nodes;
mod order;
mod steps;

use nerve_record::name;

use self::order::Order;
use super::source_map::{Origin, Path, Report};
use super::types::GraphFile;

/// Says all that is wrong with a graph and the graphs in it.
pub(super) fn check(file: &GraphFile, report: &mut Report<'_>) {
    if let Err(error) = name::check("graph", &file.graph) {
        report.say(Path::Root.key("graph"), error.to_string());
    }
    limits::count(file.max_parallel, 1..=limits::MAX_PARALLEL, Path::Root.key("max_parallel"), report);
    limits::budget(&file.budget, Path::Root.key("budget"), report);
    for name in file.inputs.iter().flatten().map(|(name, _)| name).filter(|name| name.trim().is_empty()) {
        report.say(Path::Root.key("inputs").name(name), "an input needs a name");
    }
    nodes::check(file, report);
    let order = Order::of(file, report);
    steps::check(file, report);
    order::shared(file, &order, report);
    names::check(file, &order, report);
}

/// The origin of a graph inside another one: its own where it has one.
fn origin_of(inner: &GraphFile, outer: &Origin, at: Path<'_>) -> Origin {
    if inner.origin.is_known() { inner.origin.clone() } else { outer.inside(at) }
}
