//! The store on the simulated disk: what it does when nothing goes wrong, and after every crash and failure that a seed can name.

mod asked;
mod behaviour;
mod cases;
mod cases_of_crashes;
mod cases_of_deletion;
mod cases_of_full_disks;
mod clock;
mod crash;
mod descriptors;
mod faults;
mod levels;
mod meetings;
mod orphans;
mod pressure;
mod recycle;
mod release;
mod removal;
mod rest;
mod rot;
mod sabotage;
mod scrub;
mod shards;
mod shortages;
mod tiers;
mod truncation;
mod verbs;
