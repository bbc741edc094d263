//! Samplers: they decide which traces are recorded.

use super::context::TraceContext;
use super::ids::TraceId;

/// Decides which traces are recorded (OpenTelemetry: `OTEL_TRACES_SAMPLER`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// Follows the caller's decision; uses [`RootSampler`] for traces that begin here.
    ParentBased(RootSampler),
    /// Ignores the caller's decision.
    Always(RootSampler),
}

/// Decides which of our own traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RootSampler {
    /// All.
    On,
    /// None.
    Off,
    /// This fraction of them, from 0 to 1, by trace id: all participants decide alike.
    Ratio(f64),
}

impl Default for Sampler {
    /// Returns OpenTelemetry's default, `parentbased_always_on`.
    fn default() -> Sampler {
        Sampler::ParentBased(RootSampler::On)
    }
}

impl Sampler {
    pub(super) fn keeps(self, parent: Option<&TraceContext>, trace: TraceId) -> bool {
        match (self, parent) {
            (Sampler::ParentBased(_), Some(parent)) => parent.is_sampled(),
            (Sampler::ParentBased(root) | Sampler::Always(root), _) => root.keeps(trace),
        }
    }
}

impl RootSampler {
    fn keeps(self, trace: TraceId) -> bool {
        match self {
            RootSampler::On => true,
            RootSampler::Off => false,
            RootSampler::Ratio(part) => {
                let [.., a, b, c, d, e, f, g] = trace.to_bytes();
                let drawn = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
                // A float has a precision of 53 bits, which is enough for 56.
                drawn as f64 / (1u64 << 56) as f64 >= 1.0 - part
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(flags: &str) -> TraceContext {
        TraceContext::parse(&format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"), None)
            .unwrap()
    }

    #[test]
    fn caller_decides_for_its_trace() {
        let trace = TraceId::random().unwrap();
        for root in [RootSampler::On, RootSampler::Off] {
            assert!(Sampler::ParentBased(root).keeps(Some(&parent("01")), trace));
            assert!(!Sampler::ParentBased(root).keeps(Some(&parent("00")), trace));
        }
        assert!(Sampler::default().keeps(None, trace));
        assert!(!Sampler::ParentBased(RootSampler::Off).keeps(None, trace));
        assert!(Sampler::Always(RootSampler::On).keeps(Some(&parent("00")), trace));
        assert!(!Sampler::Always(RootSampler::Off).keeps(Some(&parent("01")), trace));
    }

    #[test]
    fn ratio_samples_that_fraction() {
        let kept = |part| {
            let sampler = Sampler::ParentBased(RootSampler::Ratio(part));
            (0..4000).filter(|_| sampler.keeps(None, TraceId::random().unwrap())).count()
        };
        assert_eq!((kept(0.0), kept(1.0)), (0, 4000));
        // Five standard deviations around 1000.
        assert!((863..1137).contains(&kept(0.25)));
    }
}
