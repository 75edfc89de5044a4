//! Which step waits for which.
//!
//! Derives needs from inputs where the author gave none, orders steps by their needs and finds cycles. Works on
//! positions in the list of steps and tolerates any graph: an unknown step is skipped here and reported by `validate`,
//! and a cycle ends a walk instead of trapping it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::{FromModels, Need, Step};

/// Derives absent needs, and says for each need whether one model or all must be complete.
pub(super) fn settle(steps: &mut [Step]) {
    let fed = feeders(steps);
    for (step, fed) in steps.iter_mut().zip(fed) {
        if step.needs_derived {
            step.needs = fed.into_iter().map(|(step, models)| Need { step, models }).collect();
        } else {
            let models: BTreeMap<String, FromModels> = fed.into_iter().collect();
            for need in &mut step.needs {
                need.models = models.get(&need.step).copied().unwrap_or(FromModels::Own);
            }
        }
    }
}

/// For each step, the other steps of this stage that feed it, as written, with the models it reads them from.
pub(super) fn feeders(steps: &[Step]) -> Vec<Vec<(String, FromModels)>> {
    let mut producers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, step) in steps.iter().enumerate() {
        producers.entry(&step.output_type).or_default().push(position);
    }
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        let mut fed: BTreeMap<usize, FromModels> = BTreeMap::new();
        for input in step.inputs_required.iter().filter(|input| input.is_made_here()) {
            let made_by = producers.get(input.r#type.as_str());
            for &position in made_by.into_iter().flatten() {
                let producer = &steps[position];
                if producer.key == step.key || !producer.produces(input) {
                    continue;
                }
                let models = fed.entry(position).or_insert(input.from_models);
                *models = (*models).max(input.from_models);
            }
        }
        all.push(fed.into_iter().map(|(position, models)| (steps[position].key.clone(), models)).collect());
    }
    all
}

/// Positions such that each step follows those it needs; ties by position, steps that never become free last.
pub(super) fn order(steps: &[Step]) -> Vec<usize> {
    let needs = graph(steps);
    let mut waiting: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut dependents = vec![Vec::new(); steps.len()];
    for (position, needed) in needs.iter().enumerate() {
        for &need in needed {
            dependents[need].push(position);
        }
    }
    let mut free: BinaryHeap<Reverse<usize>> =
        (0..steps.len()).filter(|&position| waiting[position] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse(position)) = free.pop() {
        order.push(position);
        for &dependent in &dependents[position] {
            waiting[dependent] -= 1;
            if waiting[dependent] == 0 {
                free.push(Reverse(dependent));
            }
        }
    }
    order.extend((0..steps.len()).filter(|&position| waiting[position] > 0));
    order
}

/// Cycles that share no step, each from its first step as written, in the order they need one another.
pub(super) fn cycles(steps: &[Step]) -> Vec<Vec<usize>> {
    let needs = graph(steps);
    let mut left: BTreeSet<usize> = (0..steps.len()).collect();
    let mut cycles = Vec::new();
    loop {
        // Without the steps that need nothing left, every walk along needs must come back to itself.
        loop {
            let before = left.len();
            let stuck = |position: &usize| needs[*position].iter().any(|need| left.contains(need));
            left = left.iter().copied().filter(stuck).collect();
            if left.len() == before {
                break;
            }
        }
        let Some(&start) = left.first() else {
            return cycles;
        };
        let mut walk: Vec<usize> = Vec::new();
        let mut next = Some(start);
        let mut cycle = Vec::new();
        while let Some(position) = next {
            if let Some(met) = walk.iter().position(|&seen| seen == position) {
                cycle = walk.split_off(met);
                break;
            }
            walk.push(position);
            next = needs[position].iter().copied().find(|need| left.contains(need));
        }
        let first = cycle.iter().enumerate().min_by_key(|(_, position)| **position);
        let turn = first.map_or(0, |(index, _)| index);
        cycle.rotate_left(turn);
        for position in &cycle {
            left.remove(position);
        }
        cycles.push(cycle);
    }
}

/// The known needs of each step as positions; of two steps with one key the first is meant.
fn graph(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut by_key: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, step) in steps.iter().enumerate() {
        by_key.entry(&step.key).or_insert(position);
    }
    let known = |need: &Need| by_key.get(need.step.as_str()).copied();
    steps.iter().map(|step| step.needs.iter().filter_map(known).collect()).collect()
}
