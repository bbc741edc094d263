#![expect(deprecated, reason = "tests the deprecated names")]

use nerve_api::request::CreateNode;
use nerve_client::{RemoteChannel, StreamItem};
use serde_json::json;

use super::connected_client;

#[tokio::test]
async fn deprecated_names_send_current_commands() {
    let (client, mut peer) = connected_client().await;
    let info = json!({"node_id": "a", "type": "pty", "state": "ready", "persistent": true, "metadata": {}});
    let data = json!({"node_id": "a", "type": "pty", "state": "ready", "persistent": true, "metadata": {}});
    let turn = json!({"response": {"text": "hello"}, "node_id": "a", "turn": 1});
    let server = async {
        // The commands are the current ones: the server must not warn about a name that the user did not
        // write.
        for (command, data) in [
            ("CREATE_NODE", json!({"node_id": "a"})),
            ("GET_NODE", data.clone()),
            ("LIST_NODES", json!({"nodes": ["a"], "nodes_info": [info]})),
            ("EXECUTE_INPUT", turn.clone()),
            ("EXECUTE_INPUT", turn.clone()),
            ("STOP_NODE", json!({"stopped": true})),
        ] {
            let request = peer.request().await;
            assert_eq!(request["command_type"], command);
            peer.answer(&request, data).await;
        }
    };
    let client_side = async {
        let channel: RemoteChannel = client.create_channel(&CreateNode::new("a")).await.unwrap();
        assert_eq!(channel.channel_id(), "a");
        assert_eq!(client.get_channel("a", None).await.unwrap().id(), "a");
        assert_eq!(client.list_channels(None).await.unwrap(), ["a"]);
        assert_eq!(channel.send("hi").await.unwrap().response.text, "hello");
        let mut stream = channel.send_stream("hi").await.unwrap();
        assert!(matches!(stream.next().await, Some(Ok(StreamItem::Response(_)))));
        channel.close().await.unwrap();
    };
    tokio::join!(server, client_side);
}
