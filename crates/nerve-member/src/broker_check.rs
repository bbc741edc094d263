//! The check of a cluster's streams at the broker.

use nerve_nats::{BrokerError, Connection, Durability, Streams};

use crate::error::MemberError;

/// The brokers of a cluster, as they describe themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerCheck {
    /// Version of nats-server.
    pub version: String,
    /// Durability of an acknowledged write.
    pub durability: Durability,
    /// Settings of the streams that differ from those that the cluster needs.
    pub differences: Vec<String>,
}

impl BrokerCheck {
    /// Inspects the streams.
    pub(crate) async fn run(
        connection: &Connection,
        streams: &Streams,
        broker: &str,
    ) -> Result<BrokerCheck, MemberError> {
        let inspected = streams.inspect(connection).await.map_err(|error| match error {
            BrokerError::NoStream(_) => {
                MemberError::NoCluster { cluster: streams.cluster().to_string(), broker: broker.to_string() }
            }
            error => MemberError::Broker(error),
        })?;
        let differences = inspected.iter().flat_map(|stream| {
            stream.differences.iter().map(|difference| format!("{}: {difference}", stream.name))
        });
        Ok(BrokerCheck {
            version: connection.server_version(),
            durability: Durability::of(&inspected),
            differences: differences.collect(),
        })
    }
}
