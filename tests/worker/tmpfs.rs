//! A file system that can be filled.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory, unmounted at the end.
pub(crate) struct Tmpfs(PathBuf);

impl Tmpfs {
    pub(crate) fn mount(at: &Path, size: &str) -> Tmpfs {
        std::fs::create_dir(at).expect("a directory");
        let owner = std::os::unix::fs::MetadataExt::uid(&at.with_file_name("data").metadata().expect("data"));
        let options = format!("size={size},mode=700,uid={owner}");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        assert!(status.is_ok_and(|status| status.success()), "mount -t tmpfs needs root");
        Tmpfs(at.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
