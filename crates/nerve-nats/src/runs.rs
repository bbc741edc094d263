//! The runs of a cluster: which journals exist, and hints at changes of them.

use std::collections::BTreeMap;

use async_nats::Subscriber;
use futures_util::StreamExt;
use nerve_cluster::RunId;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::connection::no_response;
use crate::error::BrokerError;
use crate::store::NatsStore;

/// Hints at new records, from the publications of all members. Some may be lost, and some records are refused by the broker.
#[derive(Debug)]
pub struct JournalChanges {
    publications: Subscriber,
    prefix: String,
}

#[derive(Deserialize)]
struct Page {
    state: Subjects,
    /// Number of subjects in all pages.
    #[serde(default)]
    total: usize,
}

#[derive(Deserialize)]
struct Subjects {
    /// Number of messages by subject.
    #[serde(default)]
    subjects: BTreeMap<String, u64>,
}

impl NatsStore {
    /// Returns the runs that have a journal, with the number of their records.
    ///
    /// # Errors
    /// [`BrokerError::NoStream`] if the cluster does not exist, or see [`BrokerError`].
    pub async fn runs(&self) -> Result<BTreeMap<RunId, u64>, BrokerError> {
        let deadline = self.connection().deadline();
        timeout(deadline, self.read_runs()).await.unwrap_or_else(|_| Err(no_response(deadline)))
    }

    async fn read_runs(&self) -> Result<BTreeMap<RunId, u64>, BrokerError> {
        let function = format!("STREAM.INFO.{}", self.streams().stream("journals"));
        let filter = self.streams().subject("journal", "*");
        let prefix = self.prefix();
        let (mut runs, mut read) = (BTreeMap::new(), 0);
        loop {
            let query = json!({ "subjects_filter": filter, "offset": read });
            let page: Page = self.connection().api(&function, &query).await?;
            let count = page.state.subjects.len();
            let of_runs = page.state.subjects.into_iter().filter_map(|(subject, records)| {
                Some((RunId::new(subject.strip_prefix(&prefix)?).ok()?, records))
            });
            runs.extend(of_runs);
            read += count;
            if count == 0 || read >= page.total {
                return Ok(runs);
            }
        }
    }

    /// Subscribes to the publications of records. Needs the permission to subscribe to `nerve.CLUSTER.journal.*`; without it no hint
    /// arrives.
    ///
    /// # Errors
    /// [`BrokerError::Unavailable`].
    pub async fn journal_changes(&self) -> Result<JournalChanges, BrokerError> {
        let subject = self.streams().subject("journal", "*");
        let publications = self.connection().subscribe(subject).await?;
        Ok(JournalChanges { publications, prefix: self.prefix() })
    }

    fn prefix(&self) -> String {
        self.streams().subject("journal", "")
    }
}

impl JournalChanges {
    /// Waits for the next hint and returns its run; `None` once the connection was closed. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<RunId> {
        loop {
            let message = self.publications.next().await?;
            let run = message.subject.strip_prefix(&self.prefix).map(RunId::new);
            if let Some(Ok(run)) = run {
                return Some(run);
            }
        }
    }
}
