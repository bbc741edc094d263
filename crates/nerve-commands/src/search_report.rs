//! The output of `nerve search`, and the search on other machines.

use std::time::Duration;

use anyhow::Result;
use nerve_api::reply::{SearchHit, SearchResult, UnsearchedFile};
use nerve_api::request::Search;
use nerve_api::{DEFAULT_SESSION, ErrorKind};
use nerve_client::{ClientError, NerveClient};
use nerve_machine::connect::MachineReply;
use nerve_machine::machine::LOCAL;
use nerve_machine::{MachineError, Machines};
use nerve_types::name::DEFAULT_SERVER;
use serde_json::{Value, json};

use crate::clock::local_time;
use crate::machine_command::{format_contact, reply_json};
use crate::out;

/// Time limit for a machine's search, which includes the connection. A first search builds the index.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of hits that a server returns.
const MAX_REMOTE_HITS: usize = 1000;
/// Maximum number of unreadable files that are named.
const MAX_NAMED: usize = 3;

/// The hits of this machine and of others.
#[derive(Debug, Default)]
pub struct SearchReport {
    hits: Vec<FoundHit>,
    /// Files that are not searched completely, with their machines.
    unsearched: Vec<(Option<String>, UnsearchedFile)>,
    unsearched_count: usize,
    was_rebuilt: bool,
    /// The other machines, as JSON. `None` if only one was searched.
    machines: Option<Vec<Value>>,
    /// Machines that did not reply: since when, and why.
    unreachable: Vec<String>,
}

/// A hit, and the machine on which it is; `None` if only this machine was searched.
#[derive(Debug)]
struct FoundHit {
    machine: Option<String>,
    hit: SearchHit,
}

impl SearchReport {
    /// Adds the hits of a machine. `None`: this one, and no other was searched.
    pub fn add(&mut self, machine: Option<&str>, result: SearchResult) {
        let machine = machine.map(str::to_string);
        let named = |hit| FoundHit { machine: machine.clone(), hit };
        self.hits.extend(result.hits.into_iter().map(named));
        self.unsearched.extend(result.unsearched.into_iter().map(|file| (machine.clone(), file)));
        self.unsearched_count += result.unsearched_count;
        self.was_rebuilt |= result.was_rebuilt;
    }

    /// Adds the replies of other machines. One that did not reply is a row with its age.
    pub fn add_replies(&mut self, replies: Vec<MachineReply<SearchResult>>) {
        let machines = self.machines.get_or_insert_default();
        machines.extend(replies.iter().map(reply_json));
        for MachineReply { machine, outcome, last_contact } in replies {
            match outcome {
                Ok(result) => self.add(Some(&machine.name), result),
                Err(error) => self.unreachable.push(format!(
                    "machine '{}' is not searched: unreachable, {}: {}",
                    machine.name,
                    format_contact(last_contact),
                    error.message
                )),
            }
        }
    }

    /// Prints the newest hits, and what is not searched. Returns false if there are no hits.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(mut self, limit: usize, is_json: bool) -> Result<bool> {
        self.hits.sort_by_key(|found| std::cmp::Reverse(found.hit.happened_at));
        self.hits.truncate(limit);
        if self.was_rebuilt {
            out::note("the search index was damaged or old and was built again");
        }
        for (machine, file) in self.unsearched.iter().take(MAX_NAMED) {
            let place = machine.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            let text = format!("{place}{} is not searched completely: {}", file.path, file.reason);
            out::warning(out::sanitize(&text));
        }
        let more = self.unsearched_count.saturating_sub(MAX_NAMED);
        if more > 0 {
            out::warning(format_args!("{more} more files are not searched completely"));
        }
        self.unreachable.iter().for_each(|text| out::warning(out::sanitize(text)));
        match is_json {
            true => out::json(&self.to_json()?)?,
            false if self.hits.is_empty() => out::note("nothing found"),
            false => self.hits.iter().try_for_each(FoundHit::print)?,
        }
        Ok(!self.hits.is_empty())
    }

    /// Returns the reply to SEARCH, with the command that shows each hit, and with the machines.
    fn to_json(&self) -> Result<Value> {
        let hits = self.hits.iter().map(|found| {
            let mut value = serde_json::to_value(&found.hit)?;
            value["open"] = found.open_command().into();
            if let Some(machine) = &found.machine {
                value["machine_name"] = machine.as_str().into();
            }
            Ok::<Value, anyhow::Error>(value)
        });
        let unsearched = self.unsearched.iter().map(|(machine, file)| {
            let mut value = serde_json::to_value(file)?;
            if let Some(machine) = machine {
                value["machine_name"] = machine.as_str().into();
            }
            Ok::<Value, anyhow::Error>(value)
        });
        let mut value = json!({
            "hits": hits.collect::<Result<Vec<Value>>>()?,
            "unsearched": unsearched.collect::<Result<Vec<Value>>>()?,
            "unsearched_count": self.unsearched_count,
            "was_rebuilt": self.was_rebuilt,
        });
        if let Some(machines) = &self.machines {
            value["machines"] = machines.clone().into();
        }
        Ok(value)
    }
}

impl FoundHit {
    fn print(&self) -> Result<()> {
        let hit = &self.hit;
        let name = out::sanitize(&self.node_path().or(hit.recording_id.clone()).unwrap_or_default());
        let turn = hit.turn.map(|turn| format!(" · turn {turn}")).unwrap_or_default();
        let kind: &str = hit.kind.into();
        let time = local_time(hit.happened_at.seconds());
        out::line(format_args!("{name}{turn} · {time} · {kind}"))?;
        out::line(format_args!("    {}", self.highlighted()))?;
        out::line(format_args!("    {}\n", out::sanitize(&self.open_command())))
    }

    /// Returns the address of the node: with its machine if there are several, else with its session unless that is the default.
    fn node_path(&self) -> Option<String> {
        let node = self.hit.node_id.as_ref()?;
        let session = self.hit.session_id.as_deref();
        if let Some(machine) = &self.machine {
            return Some(format!("{machine}/{}/{node}", session.unwrap_or(DEFAULT_SESSION)));
        }
        Some(match session.filter(|session| *session != DEFAULT_SESSION) {
            Some(session) => format!("{session}/{node}"),
            None => node.clone(),
        })
    }

    /// Returns the text in one line with its matches in bold. A machine's text may have any offsets.
    fn highlighted(&self) -> String {
        let (bold, plain) = (anstyle::Style::new().bold(), anstyle::Reset);
        let (mut text, mut last) = (String::new(), 0);
        let one_line = |text: &str| out::sanitize(&text.replace(['\n', '\t'], " "));
        for &[start, end] in &self.hit.matches {
            let (Some(before), Some(matched)) =
                (self.hit.text.get(last..start), self.hit.text.get(start..end))
            else {
                break;
            };
            text.push_str(&one_line(before));
            text.push_str(&format!("{bold}{}{plain}", one_line(matched)));
            last = end;
        }
        text.push_str(&one_line(self.hit.text.get(last..).unwrap_or_default()));
        text.trim().to_string()
    }

    /// Returns the command that shows the hit.
    fn open_command(&self) -> String {
        let hit = &self.hit;
        let machine = self.machine.as_deref().filter(|machine| *machine != LOCAL);
        let server = match (machine, hit.server_name.as_deref()) {
            (Some(machine), _) => Some(format!("machine://{machine}")),
            (None, Some(server)) if server != DEFAULT_SERVER => Some(server.to_string()),
            _ => None,
        };
        let server = server.map(|server| format!(" --server {}", shell_words::quote(&server)));
        // A long address names the server.
        let server_of_node = server.clone().filter(|_| machine.is_none()).unwrap_or_default();
        let node = shell_words::quote(&self.node_path().unwrap_or_default()).into_owned();
        match (&hit.recording_id, hit.turn) {
            (Some(id), Some(turn)) => {
                let server = server.filter(|_| machine.is_some()).unwrap_or_default();
                format!("nerve transcript {} --turn {turn}{server}", shell_words::quote(id))
            }
            (Some(id), None) => {
                let id = match machine {
                    Some(machine) => format!("machine://{machine}/{id}"),
                    None => id.clone(),
                };
                format!("nerve view {} --at {:.1}", shell_words::quote(&id), hit.offset_ms as f64 / 1e3)
            }
            (None, Some(turn)) => format!("nerve transcript {node} --turn {turn}{server_of_node}"),
            (None, None) => format!("nerve logs {node}{server_of_node}"),
        }
    }
}

/// Searches on one machine.
///
/// # Errors
/// The machine cannot be reached, or its server reports an error.
pub async fn search_machine(client: &NerveClient, request: &Search) -> Result<SearchResult> {
    Ok(client.request(&limited(request)).await?)
}

/// Searches on all machines in the list, in parallel.
///
/// # Errors
/// The list of machines is damaged.
pub async fn search_machines(
    machines: &Machines,
    request: &Search,
) -> Result<Vec<MachineReply<SearchResult>>, MachineError> {
    let request = &limited(request);
    let query = |_, client: NerveClient| async move {
        match client.request(request).await {
            // No node or session of this name.
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                Ok(SearchResult::default())
            }
            reply => reply,
        }
    };
    machines.query_all(MACHINE_TIMEOUT, query).await
}

/// Returns a request with a limit that servers accept.
fn limited(request: &Search) -> Search {
    Search { limit: request.limit.map(|limit| limit.min(MAX_REMOTE_HITS)), ..request.clone() }
}

#[cfg(test)]
mod tests {
    use nerve_api::value::DocumentKind;
    use nerve_machine::Machine;
    use nerve_types::activity::TsMs;

    use super::*;

    fn hit(recording: Option<&str>, turn: Option<u64>, at: u64) -> SearchHit {
        SearchHit {
            kind: DocumentKind::Prompt,
            node_id: Some("me".to_string()),
            session_id: Some("night".to_string()),
            server_name: Some("x".to_string()),
            recording_id: recording.map(str::to_string),
            turn,
            happened_at: TsMs(at),
            offset_ms: 2500,
            text: "a text".to_string(),
            matches: vec![[2, 6]],
        }
    }

    #[test]
    fn command_opens_the_hit_on_its_machine() {
        let open = |machine: Option<&str>, recording, turn| {
            FoundHit { machine: machine.map(str::to_string), hit: hit(recording, turn, 0) }.open_command()
        };
        assert_eq!(open(None, Some("01"), Some(2)), "nerve transcript 01 --turn 2");
        assert_eq!(open(None, Some("01"), None), "nerve view 01 --at 2.5");
        assert_eq!(open(None, None, Some(2)), "nerve transcript night/me --turn 2 --server x");
        assert_eq!(open(Some("local"), None, None), "nerve logs local/night/me --server x");
        let lab = Some("lab");
        assert_eq!(open(lab, Some("01"), Some(2)), "nerve transcript 01 --turn 2 --server machine://lab");
        assert_eq!(open(lab, Some("01"), None), "nerve view machine://lab/01 --at 2.5");
        assert_eq!(open(lab, None, Some(2)), "nerve transcript lab/night/me --turn 2");
        assert_eq!(open(lab, None, None), "nerve logs lab/night/me");
    }

    #[test]
    fn machine_without_reply_is_a_row() {
        let mut report = SearchReport::default();
        let result = |at| SearchResult { hits: vec![hit(None, None, at)], ..SearchResult::default() };
        report.add(Some("local"), result(1));
        let machine = |name: &str| Machine { name: name.to_string(), ..Machine::unnamed("ssh://h") };
        let down = MachineError::new(ErrorKind::Network, "no route");
        report.add_replies(vec![
            MachineReply { machine: machine("work"), outcome: Ok(result(2)), last_contact: None },
            MachineReply { machine: machine("off"), outcome: Err(down), last_contact: None },
        ]);
        let value = report.to_json().unwrap();
        let names: Vec<&Value> =
            value["hits"].as_array().unwrap().iter().map(|hit| &hit["machine_name"]).collect();
        assert_eq!(names, ["local", "work"]);
        let reachable: Vec<&Value> =
            value["machines"].as_array().unwrap().iter().map(|machine| &machine["reachable"]).collect();
        assert_eq!(reachable, [true, false]);
        assert_eq!(report.unreachable.len(), 1);
    }

    #[test]
    fn hostile_offsets_do_not_panic() {
        let mut found = FoundHit { machine: None, hit: hit(None, None, 0) };
        assert!(found.highlighted().contains("text"));
        found.hit.text = "äöü".to_string();
        found.hit.matches = vec![[1, 2], [5, 3], [0, 900]];
        assert_eq!(found.highlighted(), "äöü");
    }
}
