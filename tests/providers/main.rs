//! Laws of calls to providers: a real server on one side, a scripted provider on the other. One file per matter.

mod canary;
mod cases;
mod circuit;
mod conformance;
mod connections;
mod continuing;
mod costs;
mod cutting;
mod egress;
mod fallback;
mod finishing;
mod ground;
mod hostile;
mod killing;
mod limits;
mod live;
mod long;
mod news;
mod ratios;
mod recovering;
mod secrets;
mod shapes;
mod storms;
mod strictness;
mod trust;
mod writing;
