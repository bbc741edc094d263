//! The prices of a server, read again when the user's file changes.

use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use nerve_api::reply::{ModelTokens, NodeInfo};
use nerve_node::usage_ledger::Pricing;
use nerve_proxy::PriceTable;
use parking_lot::Mutex;

/// The effective prices.
#[derive(Debug)]
pub(crate) struct PriceCache {
    path: Option<PathBuf>,
    /// The prices, and the modification time of their file.
    loaded: Mutex<Option<(Option<SystemTime>, Arc<PriceTable>)>>,
}

impl PriceCache {
    /// Creates a cache. `path`: the user's file, which need not exist.
    pub(crate) fn new(path: Option<PathBuf>) -> PriceCache {
        PriceCache { path, loaded: Mutex::new(None) }
    }

    /// Adds the cost of a node's tokens to its description. A proxy with prices knows the cost itself.
    pub(crate) fn add_cost(&self, info: &mut NodeInfo) {
        let progress = &mut info.progress;
        if let Some(cost) = info.metadata.get("proxy_cost_usd").and_then(Value::as_f64) {
            progress.cost_usd = Some(cost);
        } else if !progress.models.is_empty() {
            (progress.cost_usd, progress.has_unpriced) = cost_of(&self.table(), &progress.models);
        }
    }

    /// Returns a function that looks up the cost of tokens.
    pub(crate) fn pricing(prices: &Arc<PriceCache>) -> Pricing {
        let prices = Arc::clone(prices);
        Arc::new(move |tokens| cost_of(&prices.table(), std::slice::from_ref(tokens)).0)
    }

    /// Returns the prices. With an invalid file, these are the built-in ones.
    fn table(&self) -> Arc<PriceTable> {
        let path = self.path.as_deref();
        let modified = path.and_then(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok());
        let mut loaded = self.loaded.lock();
        if let Some((_, table)) = loaded.as_ref().filter(|(of, _)| *of == modified) {
            return Arc::clone(table);
        }
        let table = path.map_or_else(|| Ok(PriceTable::built_in()), PriceTable::load);
        let table = Arc::new(table.unwrap_or_else(|error| {
            tracing::warn!(%error, "invalid prices, using the built-in ones");
            PriceTable::built_in()
        }));
        *loaded = Some((modified, Arc::clone(&table)));
        table
    }
}

/// Returns the cost of the tokens that have a price, and true if some have none.
fn cost_of(table: &PriceTable, models: &[ModelTokens]) -> (Option<f64>, bool) {
    let cost = |ModelTokens { model, tokens }: &ModelTokens| table.cost(model.as_deref()?, None, tokens);
    let costs: Vec<Option<f64>> = models.iter().map(cost).collect();
    (costs.iter().flatten().copied().reduce(|sum, cost| sum + cost), costs.contains(&None))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use nerve_types::token_usage::TokenUsage;

    #[test]
    fn missing_prices_are_marked_and_edits_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let cache = PriceCache::new(Some(path.clone()));
        let tokens = |model: &str| ModelTokens {
            model: Some(model.to_string()),
            tokens: TokenUsage { input: 1_000_000, ..TokenUsage::default() },
        };
        let models = [tokens("claude-opus-5-5"), tokens("mine")];
        assert_eq!(cost_of(&cache.table(), &models), (Some(4.0), true));
        assert_eq!(cost_of(&cache.table(), &models[1..]), (None, true));
        let write = |text: &str, seconds: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        write("[[model]]\nname = 'mine'\nsince = 2026-01-01\ninput = 0.5\noutput = 1\n", 1);
        assert_eq!(cost_of(&cache.table(), &models), (Some(4.5), false));
        write("not valid", 2);
        assert_eq!(cost_of(&cache.table(), &models), (Some(4.0), true));
    }
}
