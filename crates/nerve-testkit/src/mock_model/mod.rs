//! A scripted model API on loopback: the real agents talk to it as to their vendors' (Anthropic Messages, OpenAI
//! Responses and Chat Completions, Gemini generateContent). A [`Script`] selects the answers.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use nerve_testkit::mock_model::{Answer, Script, serve};
//!
//! let script = Script::default().rule("the capital of France", Answer::text("Paris"));
//! let model = serve(([127, 0, 0, 1], 0).into(), script).await?;
//! println!("ANTHROPIC_BASE_URL={}", model.url());
//! model.shutdown().await
//! # }).unwrap();
//! ```

mod answer;
mod anthropic;
mod gemini;
mod openai;
mod requests;
mod script;
mod server;
mod stream;
mod texts;

pub use answer::{Answer, BodyEnd, Part, Raw, Reply, ToolCall};
pub use requests::RecordedRequest;
pub use script::Script;
pub use server::{MockModel, serve};

use serde_json::Value;

/// Returns the strings at `pointer` in each element of a list.
fn names(list: &Value, pointer: &str) -> Vec<String> {
    let names =
        list.as_array().into_iter().flatten().filter_map(|element| element.pointer(pointer)?.as_str());
    names.map(String::from).collect()
}

/// Returns true if a system prompt asks for a title or a summary of the conversation.
fn is_about_a_title(system: &str) -> bool {
    let system = system.to_lowercase();
    ["title", "summar", "topic"].iter().any(|word| system.contains(word))
}
