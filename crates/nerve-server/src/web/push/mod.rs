//! Notifications of browsers whose page is closed, through Web Push.

mod sender;

pub(crate) use self::sender::PushSender;
