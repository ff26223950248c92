//! Reads /proc/self/mountinfo. Pure: text in, mounts out.

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub id: u64,
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    pub kind: String,
    /// What was mounted: a device's path, or a name.
    pub source: String,
    /// Options of the mount, then those of the file system.
    pub options: Vec<String>,
}

/// The mounts of a mountinfo text. Lines that make no sense are left out.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// The mount of a file: by mount id where the kernel tells it, else the last one of the device (the topmost).
pub(super) fn find(mounts: &[Mount], id: Option<u64>, device: (u32, u32)) -> Option<&Mount> {
    let by_id = id.and_then(|id| mounts.iter().find(|mount| mount.id == id));
    by_id.or_else(|| mounts.iter().rfind(|mount| mount.device == device))
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let (major, minor) = left.nth(1)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let root = unescape(left.next()?);
    let point = unescape(left.next()?);
    let of_mount = left.next()?;
    let mut right = right.split(' ');
    let kind = right.next()?.to_owned();
    let source = unescape(right.next()?);
    let of_filesystem = right.next().unwrap_or_default();
    let mut options: Vec<String> = Vec::new();
    for option in of_mount.split(',').chain(of_filesystem.split(',')) {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount { id, device, root, point, kind, source, options })
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resuid=65534
30 25 0:27 / /dev/shm rw,relatime shared:3 master:1 - tmpfs tmpfs rw,size=24683656k
not a mount
31 27 254:0 /sub /mnt/with\\040space rw,noatime - ext4 /dev/vda rw,discard
";

    #[test]
    fn a_mount_is_found_by_its_id_and_else_by_its_device() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 3);
        assert_eq!(find(&mounts, Some(27), (254, 0)).map(|mount| mount.point.as_str()), Some("/"));
        assert_eq!(find(&mounts, None, (254, 0)).map(|mount| mount.point.as_str()), Some("/mnt/with space"));
        assert_eq!(find(&mounts, Some(99), (0, 27)).map(|mount| mount.kind.as_str()), Some("tmpfs"));
        assert_eq!(find(&mounts, None, (8, 1)), None);
    }

    #[test]
    fn optional_fields_and_escapes_are_read() {
        let mounts = parse(TEXT);
        assert_eq!(mounts[1].source, "tmpfs");
        assert_eq!(mounts[1].options, ["rw", "relatime", "size=24683656k"]);
        assert_eq!(mounts[2].root, "/sub");
        assert!(mounts[0].options.contains(&"discard".to_owned()));
    }

    #[test]
    fn damaged_lines_are_left_out() {
        for line in ["", " - ", "x - y z", "1 2 3 / / rw - ext4 /dev/a rw", "1 2 a:b / / rw - ext4 /dev/a rw"] {
            assert_eq!(parse(line), [], "{line:?}");
        }
    }
}
