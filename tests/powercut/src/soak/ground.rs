//! Ground: what a store stands on for a part of the run.

use super::sample;
use crate::error::{Trouble, system};
use crate::faults::fault::Fault;
use crate::faults::served::Server;
use crate::faults::tree::{Loss, Tree};
use crate::fuse;
use crate::random::Random;
use std::path::{Path, PathBuf};
use strandline_tests::record::of_temporary_files;
use tempfile::TempDir;

/// Fields are dropped in their order: the server before the directory that it stands in.
pub struct Ground {
    server: Option<Server>,
    place: TempDir,
}

impl Ground {
    /// In the directory for temporary files.
    ///
    /// # Errors
    /// There can be none.
    pub fn disk() -> Result<Ground, Trouble> {
        let place = TempDir::with_prefix("strandline-soak-").map_err(system("a temporary directory"))?;
        Ok(Ground { server: None, place })
    }

    /// Served from memory.
    ///
    /// # Errors
    /// There is no FUSE, or mounting is not for us.
    pub fn fuse() -> Result<Ground, Trouble> {
        let place = fuse::place().map_err(system("a temporary directory"))?;
        let point = place.path().join("mounted");
        std::fs::create_dir(&point).map_err(system("a directory to mount at"))?;
        let server = Server::start(&point).map_err(system("mounting FUSE: this needs root"))?;
        server.put_up(Tree::default(), None, None);
        Ok(Ground { server: Some(server), place })
    }

    /// Whether operations can be made to fail.
    pub fn fails(&self) -> bool {
        self.server.is_some()
    }

    /// As it is called in the record.
    pub fn name(&self) -> String {
        if self.fails() { "fuse".to_owned() } else { of_temporary_files() }
    }

    /// Where the run keeps what is not the store's.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The store's directory.
    pub fn root(&self) -> PathBuf {
        self.place.path().join(if self.fails() { "mounted/store" } else { "store" })
    }

    /// Files and directories of the store, and the bytes of the files.
    pub fn extent(&self) -> (u64, u64) {
        self.server.as_ref().map_or_else(|| sample::extent(&self.root()), Server::extent)
    }

    /// Has an operation go wrong.
    pub fn arm(&self, fault: Fault) {
        self.server.iter().for_each(|server| server.arm(fault));
    }

    /// Nothing goes wrong any more. Says how often it has.
    pub fn lift(&self) -> u64 {
        self.server.iter().for_each(Server::lift);
        self.server.as_ref().map_or(0, Server::struck)
    }

    /// No process uses it just now. The power goes meanwhile, if that is asked for.
    pub fn rest(&self, cut: Option<Loss>, random: &mut Random) {
        let Some(server) = &self.server else { return };
        let (mut tree, ..) = server.take_down();
        if let Some(loss) = cut {
            tree.cut(loss, random);
        }
        tree.forget_nameless();
        server.put_up(tree, None, None);
    }
}
