//! What the installation asks of a machine.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every command of the path but these, as links in a folder.
fn without(hidden: &[&str]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("commands_{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for place in std::env::split_paths(&std::env::var_os("PATH").expect("PATH")) {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !hidden.iter().any(|hidden| name.to_string_lossy().starts_with(hidden)) {
                // The first of a name counts, as in the path.
                let _ = symlink(entry.path(), folder.join(name));
            }
        }
    }
    folder
}

#[test]
fn setup_needs_no_package_manager_when_all_tools_are_there() {
    let commands = without(&["dpkg", "apt"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let done = Command::new(root.join("dev/setup")).env("PATH", &commands).output().expect("dev/setup");
    std::fs::remove_dir_all(commands).expect("removed");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(!said.contains("MISSING"), "{said}");
}
