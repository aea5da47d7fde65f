"""Which file systems send no events for changes made elsewhere, so that `auto` polls them."""

from __future__ import annotations

import os

_REMOTE_NAMES = (
    "nfs nfs4 cifs smb3 smbfs 9p drvfs virtiofs vboxsf prl_fs afs ceph fuse.ceph glusterfs fuse.glusterfs lustre beegfs orangefs gfs2 "
    "davfs fuse.sshfs fuse.rclone fuse.s3fs fuse.gcsfuse fuse.davfs2 fuse.osxfs fuse.grpcfuse"
)
_REMOTE = frozenset(_REMOTE_NAMES.split())
_MOUNTS = "/proc/self/mountinfo"


def is_remote(path: str) -> bool:
    """Whether `path` stands on a network file system, as far as the system says (Linux)."""
    try:
        device = os.stat(path).st_dev
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return file_system_of(mounts.read(), os.major(device), os.minor(device)) in _REMOTE
    except OSError:
        return False


def file_system_of(mountinfo: str, major: int, minor: int) -> str | None:
    """Type of the file system with that device number, from the text of proc(5) mountinfo."""
    for line in mountinfo.splitlines():
        place, _, kind = line.partition(" - ")
        if place.split()[2:3] == [f"{major}:{minor}"]:
            return kind.split()[0]
    return None
