//! The transport between processes, over TCP.
//!
//! `wire` has the frames that ranks exchange and `connection` reads and writes them within a time limit. `process` is
//! the meeting of all processes at rank 0, where they learn each other's addresses; `member` is the membership in a
//! group, whose thread connects to the other members (`join`) and runs rounds, and `exchange` moves the data of a
//! round. `world` joins groups. Between processes of one host data go through memory of both (`shared`).
//!
//! **Peers are not trusted.** A connection says who it is within a few seconds or is dropped. Every length is compared
//! with what this rank expects, or with a small limit, before memory is taken for it; nothing that a peer sends is used
//! as an address or an index without that. A peer can send wrong numbers, refuse to go on or take the place of another
//! one that has not come: there is no authentication, so the port belongs in a network whose hosts are trusted.

mod connection;
mod exchange;
mod join;
mod member;
mod patience;
mod process;
#[cfg_attr(not(target_os = "linux"), path = "not_shared.rs")]
mod shared;
mod wire;
mod world;

pub(crate) use world::World;
