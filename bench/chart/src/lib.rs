//! Charts as SVG: lines over two axes. The page that holds them says which colours they have.
#![forbid(unsafe_code)]

mod drawing;
mod scale;

pub use drawing::{Drawing, HEIGHT, Line, WIDTH};
pub use scale::{Mark, Scale};
