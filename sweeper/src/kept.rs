//! What stands before every decision: the store's policies and what it holds, as logs with what applies to each. The pass and `explain`
//! both start here, so that what an operator is told is what the data sees.

use crate::decide::{self, Global, KeptLog};
use crate::limits::{Limits, Skip};
use crate::pins::PinBoard;
use crate::report::RollTimer;
use strandline::policy::{Bound, Policies, Policy, PolicyName};
use strandline::{Inventory, LogInfo, Store, Topic};

/// A store's logs, each with what applies to it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The logs.
    pub(crate) logs: Vec<KeptLog>,
    /// Logs whose segments the store rolls at another age than applies, with the one that does.
    pub(crate) timers: Vec<RollTimer>,
    /// The topics bound to a policy that nobody defined.
    pub(crate) unresolved: Vec<Topic>,
    /// The same logs as the store knows them, in the same order.
    pub(crate) infos: Vec<LogInfo>,
}

/// Reads policies and inventory, once each: a change meanwhile is for the next time.
pub(crate) fn read(store: &Store, limits: &Limits, pins: &PinBoard) -> Result<Kept, Skip> {
    let policies = store.policies().list()?;
    let inventory = store.inventory()?;
    Ok(kept(&policies, inventory, &global(&policies.global, store.segment_max_age_ms()), limits, pins))
}

fn kept(policies: &Policies, inventory: Inventory, global: &Global, limits: &Limits, pins: &PinBoard) -> Kept {
    let Policies { definitions, bindings, .. } = policies;
    let bound = bindings.iter().map(|(topic, name)| (topic, name.as_str()));
    let unresolved = decide::unresolved_policies(bound, definitions).into_iter().cloned().collect();
    let mut kept = Kept { logs: Vec::new(), timers: Vec::new(), unresolved, infos: Vec::new() };
    for (topic, infos) in inventory {
        let name = bindings.get(&topic).map(PolicyName::as_str);
        let effective = decide::effective(name, definitions, global, limits.backstop_max_age_ms);
        for info in infos {
            let pins = pins.of(&info.id, limits.pin_bytes_max);
            let segment_max_age_ms = decide::roll_timer_ms(&effective);
            if info.segment_max_age_ms != segment_max_age_ms {
                kept.timers.push(RollTimer { log: info.id.clone(), segment_max_age_ms });
            }
            kept.logs.push(KeptLog { pins, ..KeptLog::new(&info, effective) });
            kept.infos.push(info);
        }
    }
    kept
}

/// The store's own values. What the manifest does not say is as the configuration has it.
fn global(policy: &Policy, segment_max_age_ms: Option<u64>) -> Global {
    let value = |bound: Bound, or: Option<u64>| match bound {
        Bound::Inherit => or,
        Bound::Off => None,
        Bound::Is(value) => Some(value),
    };
    Global {
        max_age_ms: value(policy.max_age_ms, None),
        max_bytes: value(policy.max_bytes, None),
        segment_max_age_ms: value(policy.segment_max_age_ms, segment_max_age_ms),
    }
}
