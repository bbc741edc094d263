//! Selects a candidate by its name.

use nerve_types::suggestion::nearest;

use super::{Candidate, LookupError, Name, NodePath};

/// Selects the candidate with this name. The candidates are ordered by their last write, newest first.
///
/// The first of these that matches decides: an id, a node, the beginning of an id, the beginning of an id's random part.
/// Of nodes in several sessions, the default session's is selected.
///
/// # Errors
/// None or several candidates match.
pub fn select<'a>(name: &Name, candidates: &'a [Candidate]) -> Result<&'a Candidate, LookupError> {
    let text = name.text.as_str();
    if name.is_id
        && let Some(found) = single(text, candidates, |one| one.has_id(text))
    {
        return found;
    }
    if let Some(found) = select_node(name, candidates) {
        return found;
    }
    if name.is_id {
        let by_beginning = single(text, candidates, |one| one.begins_with(text));
        let found = by_beginning.or_else(|| single(text, candidates, |one| one.has_random_part(text)));
        if let Some(found) = found {
            return found;
        }
    }
    Err(LookupError::NotFound { text: text.to_string(), similar: suggest(name, candidates) })
}

/// Returns the only match; `None` without a match.
fn single<'a>(
    text: &str,
    candidates: &'a [Candidate],
    matches: impl Fn(&Candidate) -> bool,
) -> Option<Result<&'a Candidate, LookupError>> {
    let matching: Vec<&Candidate> = candidates.iter().filter(|one| matches(one)).collect();
    match matching[..] {
        [] => None,
        [one] => Some(Ok(one)),
        _ => Some(Err(ambiguous(text, matching))),
    }
}

fn ambiguous(text: &str, matching: Vec<&Candidate>) -> LookupError {
    LookupError::Ambiguous { text: text.to_string(), candidates: matching.into_iter().cloned().collect() }
}

/// Selects a recording of the named node; `None` if no candidate has that node.
fn select_node<'a>(name: &Name, candidates: &'a [Candidate]) -> Option<Result<&'a Candidate, LookupError>> {
    let wanted = name.node.as_deref()?;
    let has_session = |path: &NodePath| name.session.as_ref().is_none_or(|session| *session == path.session);
    let path = |one: &'a Candidate| {
        one.node.as_ref().filter(|path| path.node == wanted && has_session(path)).map(|path| (one, path))
    };
    let all: Vec<(&Candidate, &NodePath)> = candidates.iter().filter_map(path).collect();
    let mut paths: Vec<&NodePath> = Vec::new();
    for (_, path) in &all {
        if !paths.contains(path) {
            paths.push(*path);
        }
    }
    let selected = match paths[..] {
        [] => return None,
        [only] => only,
        _ => match paths.iter().find(|path| path.is_in_default_session()) {
            Some(default) => default,
            None => {
                let newest_of = |wanted: &&NodePath| all.iter().find(|(_, path)| path == wanted);
                let newest = paths.iter().filter_map(newest_of).map(|(one, _)| *one).collect();
                return Some(Err(ambiguous(&name.text, newest)));
            }
        },
    };
    let recordings: Vec<&Candidate> =
        all.iter().filter(|(_, path)| *path == selected).map(|(one, _)| *one).collect();
    Some(recordings.get(name.position - 1).copied().ok_or_else(|| LookupError::TooFew {
        text: name.text.clone(),
        node: wanted.to_string(),
        count: recordings.len(),
    }))
}

/// Returns the most similar name of a node, or else of an id.
fn suggest(name: &Name, candidates: &[Candidate]) -> Option<String> {
    let paths = || candidates.iter().filter_map(|one| one.node.as_ref());
    if let Some(session) = &name.session {
        let paths: Vec<String> = paths().map(ToString::to_string).collect();
        let wanted = format!("{session}/{}", name.node.as_deref().unwrap_or_default());
        return nearest(&wanted, paths.iter().map(String::as_str)).map(str::to_string);
    }
    let wanted = name.node.as_deref().unwrap_or(&name.text);
    let ids = || candidates.iter().map(|one| one.id.as_str());
    let similar = nearest(wanted, paths().map(|path| path.node.as_str())).or_else(|| nearest(wanted, ids()));
    similar.map(str::to_string)
}
