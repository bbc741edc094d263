//! Web Push: notifications of browsers whose page is closed.
//!
//! | module | contents |
//! |---|---|
//! | `subscription` | where a browser receives messages, and its keys |
//! | `encryption` | the encryption of a message for a browser (RFC 8291) |
//! | `vapid` | the key with which the server identifies itself to push services (RFC 8292) |
//! | `sender` | sends the server's notifications to all browsers that subscribed |

mod encryption;
mod sender;
mod subscription;
mod vapid;

pub(crate) use self::sender::PushSender;
pub use self::subscription::NotificationStatus;
pub(crate) use self::subscription::{PushRecord, PushSubscription, SubscriptionRequest};
pub(crate) use self::vapid::VapidKey;
