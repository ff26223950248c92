//! The ring's disk on real files, seen from outside. Each test is named as the sentence that it defends.

mod barriers;
mod closing;
mod limits;
mod load;
mod mounted;
mod names;
mod root;
mod support;
mod time;
mod transfers;
