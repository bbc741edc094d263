//! The dependency order of steps: sorting, cycles, readiness. Pure; steps are numbered in the order they were added.

/// The dependencies of all steps in one list, which saves an allocation for each step.
#[derive(Debug)]
pub(crate) struct Dependencies {
    /// End of each step's dependencies in `all`.
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Dependencies {
    pub(crate) fn with_capacity(steps: usize) -> Dependencies {
        Dependencies { ends: Vec::with_capacity(steps), all: Vec::with_capacity(steps) }
    }

    /// Adds a dependency of the current step; duplicates are ignored.
    pub(crate) fn add(&mut self, step: u32) {
        let begin = self.ends.last().copied().unwrap_or(0) as usize;
        if !self.all[begin..].contains(&step) {
            self.all.push(step);
        }
    }

    /// Completes the current step.
    pub(crate) fn end_step(&mut self) {
        self.ends.push(self.all.len() as u32);
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.ends
            .iter()
            .map(move |end| &self.all[std::mem::replace(&mut begin, *end as usize)..*end as usize])
    }
}

/// The dependency graph in compressed form, with edges from each step to its dependants.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Number of dependencies of each step.
    pub(crate) in_degrees: Vec<u32>,
    /// Start of each step's dependants in `dependants`, plus the end of the last.
    starts: Vec<u32>,
    dependants: Vec<u32>,
}

impl Plan {
    /// Builds a plan from the dependencies of each step.
    pub(crate) fn new<D: AsRef<[u32]>>(steps: &[D]) -> Plan {
        let mut deps = Dependencies::with_capacity(steps.len());
        for step in steps {
            step.as_ref().iter().for_each(|dep| deps.add(*dep));
            deps.end_step();
        }
        Plan::from_dependencies(&deps)
    }

    /// Builds a plan from the dependencies of all steps.
    pub(crate) fn from_dependencies(deps: &Dependencies) -> Plan {
        let mut starts = vec![0; deps.ends.len() + 1];
        for dep in &deps.all {
            starts[*dep as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next: Vec<u32> = starts.clone();
        let mut dependants = vec![0; starts.last().copied().unwrap_or(0) as usize];
        for (step, deps) in deps.iter().enumerate() {
            for dep in deps {
                let slot = &mut next[*dep as usize];
                dependants[*slot as usize] = step as u32;
                *slot += 1;
            }
        }
        let in_degrees = deps.iter().map(|deps| deps.len() as u32).collect();
        Plan { in_degrees, starts, dependants }
    }

    /// Returns the steps that depend on `step`.
    pub(crate) fn dependants(&self, step: u32) -> &[u32] {
        &self.dependants[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }

    /// Returns the steps in topological order (Kahn's algorithm): steps that become ready first come first.
    ///
    /// # Errors
    /// A cycle: its steps, each depending on the one before it; the first step is repeated at the end.
    pub(crate) fn order(&self) -> Result<Vec<u32>, Vec<u32>> {
        let mut pending = self.in_degrees.clone();
        let mut order: Vec<u32> =
            (0..pending.len() as u32).filter(|step| pending[*step as usize] == 0).collect();
        let mut at = 0;
        while let Some(step) = order.get(at).copied() {
            at += 1;
            for dependant in self.dependants(step) {
                let remaining = &mut pending[*dependant as usize];
                *remaining -= 1;
                if *remaining == 0 {
                    order.push(*dependant);
                }
            }
        }
        if order.len() == pending.len() { Ok(order) } else { Err(self.cycle(&pending)) }
    }

    /// Returns a cycle among the steps that still have dependencies.
    fn cycle(&self, pending: &[u32]) -> Vec<u32> {
        // Each of these steps depends on another one of them, so following the dependencies leads into a cycle.
        let mut before = vec![u32::MAX; pending.len()];
        for step in (0..pending.len() as u32).filter(|step| pending[*step as usize] > 0) {
            for dependant in self.dependants(step) {
                let slot = &mut before[*dependant as usize];
                *slot = (*slot).min(step);
            }
        }
        let Some(mut step) = (0..pending.len() as u32).find(|step| pending[*step as usize] > 0) else {
            return Vec::new();
        };
        for _ in 0..pending.len() {
            step = before[step as usize];
        }
        let first = step;
        let mut cycle = vec![first];
        loop {
            step = before[step as usize];
            cycle.push(step);
            if step == first {
                break;
            }
        }
        cycle.reverse();
        // The cycle starts at its lowest step number.
        cycle.pop();
        let least = cycle.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(at, _)| at);
        cycle.rotate_left(least);
        cycle.push(cycle[0]);
        cycle
    }

    /// Returns two steps of `users` that no dependency orders, if any. `order` is the result of [`Plan::order`].
    pub(crate) fn find_unordered(&self, order: &[u32], users: &[bool]) -> Option<(u32, u32)> {
        // `last[s]`: number of the latest user (from 1) among `s` and its predecessors.
        let mut last = vec![0_u32; self.in_degrees.len()];
        let mut seen: Vec<u32> = Vec::new();
        for step in order.iter().copied() {
            if users[step as usize] {
                if let Some(before) = seen.last().filter(|_| last[step as usize] as usize != seen.len()) {
                    return Some((*before, step));
                }
                seen.push(step);
                last[step as usize] = seen.len() as u32;
            }
            let mine = last[step as usize];
            for dependant in self.dependants(step) {
                let slot = &mut last[*dependant as usize];
                *slot = (*slot).max(mine);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(deps: &[&[u32]]) -> Plan {
        Plan::new(deps)
    }

    #[test]
    fn order_follows_dependencies_and_then_the_writing() {
        assert_eq!(plan(&[&[2], &[], &[1], &[]]).order(), Ok(vec![1, 3, 2, 0]));
        assert_eq!(plan(&[]).order(), Ok(vec![]));
    }

    #[test]
    fn a_cycle_is_named_from_the_step_written_first() {
        assert_eq!(plan(&[&[], &[3], &[1], &[2], &[3]]).order(), Err(vec![1, 2, 3, 1]));
        assert_eq!(plan(&[&[0]]).order(), Err(vec![0, 0]));
    }

    #[test]
    fn users_of_one_node_must_form_a_chain() {
        let users = [true, false, true, true];
        let check = |deps: &[&[u32]]| {
            let plan = plan(deps);
            plan.find_unordered(&plan.order().unwrap(), &users)
        };
        assert_eq!(check(&[&[], &[0], &[1], &[2]]), None);
        assert_eq!(check(&[&[], &[0], &[1], &[1]]), Some((2, 3)));
        assert_eq!(check(&[&[], &[], &[1], &[2, 0]]), Some((0, 2)));
    }
}
