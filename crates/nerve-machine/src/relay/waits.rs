//! Requests that wait, over a connection without other requests: a server cancels a wait only when its connection closes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_api::RequestName;
use nerve_client::{ClientError, NerveClient};
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::MachineError;

/// The connection for waits. It is replaced after an abandoned wait, and closes with the last of the other waits.
#[derive(Debug, Default)]
pub(super) struct WaitConnection {
    client: Mutex<Option<Arc<NerveClient>>>,
    connecting: AsyncMutex<()>,
    /// Changed only while `client` is locked.
    is_closed: AtomicBool,
}

/// A wait without a reply. Dropping it abandons the wait.
struct PendingWait<'a> {
    connection: &'a WaitConnection,
    client: Arc<NerveClient>,
    has_reply: bool,
}

impl Drop for PendingWait<'_> {
    fn drop(&mut self) {
        if !self.has_reply {
            self.connection.lock().take_if(|client| Arc::ptr_eq(client, &self.client));
        }
    }
}

impl WaitConnection {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<NerveClient>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for its reply. `connect` makes a connection if there is none.
    pub(super) async fn request(
        &self,
        name: RequestName,
        params: Value,
        connect: impl Future<Output = Result<NerveClient, MachineError>>,
    ) -> Result<Result<String, ClientError>, MachineError> {
        let client = self.client(connect).await?;
        let mut wait = PendingWait { connection: self, client, has_reply: false };
        let reply = wait.client.request_text(name, params).await;
        wait.has_reply = matches!(reply, Ok(_) | Err(ClientError::Server(_)));
        Ok(reply)
    }

    async fn client(
        &self,
        connect: impl Future<Output = Result<NerveClient, MachineError>>,
    ) -> Result<Arc<NerveClient>, MachineError> {
        let _connecting = self.connecting.lock().await;
        let open = self.lock().clone();
        if let Some(client) = open {
            return Ok(client);
        }
        let client = Arc::new(connect.await?);
        let mut open = self.lock();
        if self.is_closed.load(Ordering::Relaxed) {
            client.close();
        } else {
            *open = Some(Arc::clone(&client));
        }
        drop(open);
        Ok(client)
    }

    /// Closes the connection for good: its waits fail.
    pub(super) fn close(&self) {
        let mut client = self.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(client) = client.take() {
            client.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

    use super::*;

    #[tokio::test]
    async fn abandoned_wait_closes_its_connection_after_the_others() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let mut theirs = BufReader::new(theirs);
        let (waits, params) = (WaitConnection::default(), json!({ "node_id": "sh" }));
        let request = |connect| waits.request(RequestName::WaitNode, params.clone(), connect);
        let mut other = Box::pin(request(ready(Ok(NerveClient::over(ours)))));
        let mut line = String::new();
        tokio::select! {
            _ = other.as_mut() => panic!("a reply"),
            read = theirs.read_line(&mut line) => assert!(read.unwrap() > 0),
        }
        {
            // It uses the same connection.
            let unused = Err(MachineError::new(nerve_api::ErrorKind::Network, "another connection"));
            let mut abandoned = Box::pin(request(ready(unused)));
            let mut line = String::new();
            tokio::select! {
                _ = abandoned.as_mut() => panic!("a reply"),
                read = theirs.read_line(&mut line) => assert!(read.unwrap() > 0),
            }
        }
        assert!(waits.lock().is_none());
        let id = serde_json::from_str::<Value>(&line).unwrap()["request_id"].clone();
        let reply = json!({ "type": "result", "success": true, "data": {}, "request_id": id });
        theirs.get_mut().write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        assert_eq!(other.await.unwrap().unwrap(), "{}");
        // The machine sees the end, and cancels the abandoned wait.
        theirs.read_to_end(&mut Vec::new()).await.unwrap();
    }
}
