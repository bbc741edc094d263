//! What may run when: order, cycles, readiness. Pure; steps are numbers.

/// The dependencies of steps, one step after the other in one list: a million lists would be a million pieces of memory.
#[derive(Debug)]
pub(crate) struct Deps {
    /// Where those of each step end.
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Deps {
    pub(crate) fn with_capacity(steps: usize) -> Deps {
        Deps { ends: Vec::with_capacity(steps), all: Vec::with_capacity(steps) }
    }

    /// Of the step that is being added: depends on `step` too, once.
    pub(crate) fn add(&mut self, step: u32) {
        let begin = self.ends.last().copied().unwrap_or(0) as usize;
        if !self.all[begin..].contains(&step) {
            self.all.push(step);
        }
    }

    /// The next step.
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

/// What may run after what.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How many dependencies each step waits for.
    pub(crate) waiting: Vec<u32>,
    /// Where the dependants of each step begin in `dependants`; one more than there are steps.
    starts: Vec<u32>,
    dependants: Vec<u32>,
}

impl Plan {
    /// From the dependencies of each step.
    pub(crate) fn new<D: AsRef<[u32]>>(steps: &[D]) -> Plan {
        let mut deps = Deps::with_capacity(steps.len());
        for step in steps {
            step.as_ref().iter().for_each(|dep| deps.add(*dep));
            deps.end_step();
        }
        Plan::of(&deps)
    }

    /// From the dependencies of all steps.
    pub(crate) fn of(deps: &Deps) -> Plan {
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
                let place = &mut next[*dep as usize];
                dependants[*place as usize] = step as u32;
                *place += 1;
            }
        }
        let waiting = deps.iter().map(|deps| deps.len() as u32).collect();
        Plan { waiting, starts, dependants }
    }

    /// Steps that depend on `step`.
    pub(crate) fn dependants(&self, step: u32) -> &[u32] {
        &self.dependants[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }

    /// All steps so that each comes after what it depends on; of those that could come next, the one that could first.
    ///
    /// # Errors
    /// A cycle: its steps, each depending on the one before it, the last one the first again.
    pub(crate) fn order(&self) -> Result<Vec<u32>, Vec<u32>> {
        let mut waiting = self.waiting.clone();
        let mut order: Vec<u32> =
            (0..waiting.len() as u32).filter(|step| waiting[*step as usize] == 0).collect();
        let mut at = 0;
        while let Some(step) = order.get(at).copied() {
            at += 1;
            for dependant in self.dependants(step) {
                let left = &mut waiting[*dependant as usize];
                *left -= 1;
                if *left == 0 {
                    order.push(*dependant);
                }
            }
        }
        if order.len() == waiting.len() { Ok(order) } else { Err(self.cycle(&waiting)) }
    }

    /// A cycle among the steps that still wait.
    fn cycle(&self, waiting: &[u32]) -> Vec<u32> {
        // Who waits, waits for somebody who waits too: going back long enough comes round.
        let mut before = vec![u32::MAX; waiting.len()];
        for step in (0..waiting.len() as u32).filter(|step| waiting[*step as usize] > 0) {
            for dependant in self.dependants(step) {
                let place = &mut before[*dependant as usize];
                *place = (*place).min(step);
            }
        }
        let Some(mut step) = (0..waiting.len() as u32).find(|step| waiting[*step as usize] > 0) else {
            return Vec::new();
        };
        for _ in 0..waiting.len() {
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
        // Named from the step that was written first.
        cycle.pop();
        let least = cycle.iter().enumerate().min_by_key(|(_, step)| **step).map_or(0, |(at, _)| at);
        cycle.rotate_left(least);
        cycle.push(cycle[0]);
        cycle
    }

    /// Two steps of `users` (in the order of [`Plan::order`]) that no dependency keeps apart, if there are such.
    pub(crate) fn unordered(&self, order: &[u32], users: &[bool]) -> Option<(u32, u32)> {
        // `last[s]`: which of the users, counted from 1, is the latest before or at `s`.
        let mut last = vec![0_u32; self.waiting.len()];
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
                let place = &mut last[*dependant as usize];
                *place = (*place).max(mine);
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
            plan.unordered(&plan.order().unwrap(), &users)
        };
        assert_eq!(check(&[&[], &[0], &[1], &[2]]), None);
        assert_eq!(check(&[&[], &[0], &[1], &[1]]), Some((2, 3)));
        assert_eq!(check(&[&[], &[], &[1], &[2, 0]]), Some((0, 2)));
    }
}
