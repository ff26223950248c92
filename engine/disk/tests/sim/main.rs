//! What the simulated disk promises to the tests that stand on it. A rule that is broken here would let those tests pass
//! for the wrong reason, so each was broken on purpose once to see its test fail.

mod barriers;
mod crashes;
mod damage;
mod durability;
mod faults;
mod full;
mod lies;
mod model;
mod names;
mod schedule;
mod speed;
mod support;
mod together;
