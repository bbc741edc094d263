use super::*;

fn update(number: u64, state: ToolState) -> ToolUpdate {
    let tool = Tool { id: format!("t{number}"), command: "make".into(), state };
    ToolUpdate { number, tool, reader: InputReader::Tool }
}

fn change(tools: &mut Tools, first: u64, updates: Vec<ToolUpdate>) {
    tools.change(ToolUpdates { reset: false, first, updates });
}

fn ids(tools: &Tools) -> Vec<&str> {
    tools.iter().map(|tool| tool.id.as_str()).collect()
}

const RUNS: ToolState = ToolState::Running;
const ENDED: ToolState = ToolState::Ended(Some(0));

#[test]
fn updates_keep_list_order() {
    let mut tools = Tools::default();
    change(&mut tools, 0, vec![update(0, ENDED), update(1, RUNS), update(2, ENDED), update(3, RUNS)]);
    assert_eq!(ids(&tools), ["t3", "t1", "t2", "t0"]);
    change(&mut tools, 0, vec![update(3, ENDED), update(4, RUNS)]);
    assert_eq!(ids(&tools), ["t4", "t1", "t3", "t2", "t0"]);
    assert_eq!((tools.row("t3"), tools.row("t4"), tools.row("t9")), (Some(2), Some(0), None));
    assert!(tools.get("t1").unwrap().is_running() && !tools.dismiss("t1"));
    assert!(tools.dismiss("t2") && !tools.dismiss("t2"));
    // An update of a dismissed tool restores it only if the tool is running.
    change(&mut tools, 0, vec![update(2, ENDED)]);
    assert_eq!(ids(&tools), ["t4", "t1", "t3", "t0"]);
    change(&mut tools, 0, vec![update(2, RUNS)]);
    assert_eq!(ids(&tools), ["t4", "t2", "t1", "t3", "t0"]);
    tools.change(ToolUpdates { reset: true, first: 0, updates: vec![update(0, RUNS)] });
    assert_eq!(ids(&tools), ["t0"]);
}

#[test]
fn older_tools_are_counted_and_freed() {
    let mut tools = Tools::default();
    change(&mut tools, 0, (0..1000).map(|at| update(at, if at % 2 == 0 { RUNS } else { ENDED })).collect());
    change(&mut tools, 990, Vec::new());
    assert_eq!(ids(&tools), ["t998", "t996", "t994", "t992", "t990", "t999", "t997", "t995", "t993", "t991"]);
    assert_eq!(tools.older(), 990);
    assert!(tools.get("t989").is_none() && tools.get("t990").is_some());
    assert!(tools.numbers.len() < 1000, "{}", tools.numbers.len());
}

#[test]
fn long_list_accepts_single_changes() {
    let mut tools = Tools::default();
    for at in 0..20_000 {
        change(&mut tools, 0, vec![update(at, RUNS)]);
        change(&mut tools, 0, vec![update(at, ENDED)]);
    }
    assert_eq!((tools.iter().len(), tools.row("t19999"), tools.row("t0")), (20_000, Some(0), Some(19_999)));
}
