//! Which traces are kept.

use super::context::TraceContext;
use super::ids::TraceId;

/// Which traces are kept (OpenTelemetry: `OTEL_TRACES_SAMPLER`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// As the caller's; [`RootSampler`] for traces that begin here.
    ParentBased(RootSampler),
    /// Whatever the caller's is.
    Always(RootSampler),
}

/// Which traces of our own are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RootSampler {
    /// All.
    On,
    /// None.
    Off,
    /// This part of them, 0 to 1: by their ids, so that all who see a trace decide alike.
    Ratio(f64),
}

impl Default for Sampler {
    /// That of OpenTelemetry: `parentbased_always_on`.
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
                // 56 bits are a float's to within 2^-53.
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
    fn a_caller_decides_for_its_trace() {
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
    fn a_part_is_that_part() {
        let kept = |part| {
            let sampler = Sampler::ParentBased(RootSampler::Ratio(part));
            (0..4000).filter(|_| sampler.keeps(None, TraceId::random().unwrap())).count()
        };
        assert_eq!((kept(0.0), kept(1.0)), (0, 4000));
        // Five standard deviations around 1000.
        assert!((863..1137).contains(&kept(0.25)));
    }
}
