package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a rule can grant.
const (
	toRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	toWrite = toRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO

	toUseDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// onFiles are the rights that a file can have; all others are of folders.
	onFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// systemFolders hold programs and what they need. /etc is read in part, see
// openSettings. Of /proc the kernel shows a command nothing private of processes
// that are not its own: Landlock guards their memory, environment and files.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/run/current-system",
	"/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// ruleset is a Landlock ruleset in the making: whatever it does not grant is
// refused.
type ruleset struct {
	fd      int
	handled uint64
	denied  []denied
}

type denied struct {
	path string
	info fs.FileInfo
}

// newRuleset makes the rules of one command. The caller closes it.
func (s *Sandbox) newRuleset(f folders) (*ruleset, error) {
	attr := unix.LandlockRulesetAttr{Access_fs: handledBy(s.able.landlock)}
	if s.able.landlock >= 4 && !s.c.Network && !s.able.namespaces {
		attr.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if s.able.landlock >= 6 && !s.able.namespaces && s.able.sameSignal {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL // a namespace hides all other processes
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("make Landlock rules: %w", errno)
	}
	r := &ruleset{fd: int(fd), handled: attr.Access_fs, denied: findDenied(s.c.Deny)}
	err := r.denyLinks(s.c.Dir)
	for _, t := range toolchains() {
		err = errors.Join(err, r.grant(t.folder, toRead))
	}
	for _, path := range slices.Concat(systemFolders, openSettings(), programFolders(), s.c.Read) {
		err = errors.Join(err, r.grant(path, toRead))
	}
	for _, path := range devices {
		err = errors.Join(err, r.grant(path, toUseDevice))
	}
	for _, path := range []string{s.c.Dir, f.home, f.temp} {
		err = errors.Join(err, r.grant(path, toWrite))
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// findDenied returns the denied paths that exist, without symbolic links. One
// that this process cannot reach stays as it was named.
func findDenied(paths []string) []denied {
	found := []denied{}
	for _, path := range paths {
		resolved, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			resolved = filepath.Clean(path)
		}
		info, _ := os.Stat(resolved)
		found = append(found, denied{resolved, info})
	}
	return found
}

// denyLinks denies the other names that denied files have in the workspace: a
// rule is about a name, and a hard link is one more name of the same file. It
// walks the workspace only if a denied file has several names. It does not look
// for links to what is within a denied folder.
func (r *ruleset) denyLinks(workspace string) error {
	linked := slices.DeleteFunc(slices.Clone(r.denied), func(d denied) bool { return !hasLinks(d.info) })
	if len(linked) == 0 {
		return nil
	}
	workspace, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return fmt.Errorf("look for links to denied files: %w", err)
	}
	return filepath.WalkDir(workspace, func(path string, entry fs.DirEntry, err error) error {
		if err != nil && entry != nil && entry.IsDir() {
			return fs.SkipDir // a command cannot read it either
		}
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // it has gone
		}
		info, err := entry.Info()
		if err == nil && hasLinks(info) && slices.ContainsFunc(linked, func(d denied) bool { return os.SameFile(d.info, info) }) {
			r.denied = append(r.denied, denied{path, info})
		}
		return nil
	})
}

// hasLinks reports a file with more than one name.
func hasLinks(info fs.FileInfo) bool {
	if info == nil || !info.Mode().IsRegular() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}

// handledBy returns the rights that a version of Landlock knows.
func handledBy(version int) uint64 {
	handled := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // version 1 has all up to this
	for right, since := range map[uint64]int{
		unix.LANDLOCK_ACCESS_FS_REFER: 2, unix.LANDLOCK_ACCESS_FS_TRUNCATE: 3, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV: 5,
	} {
		if version >= since {
			handled |= right
		}
	}
	return handled
}

// grant adds a rule for a path and everything below it. Landlock cannot take a
// part away again, so a folder that holds a denied path is only listed, and
// what it holds gets rules of its own. A missing path is ignored.
func (r *ruleset) grant(path string, access uint64) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // it is not there, or cannot be reached anyway
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	holdsDenied := false
	for _, d := range r.denied {
		if within(d.path, path) || os.SameFile(d.info, info) {
			return nil
		}
		holdsDenied = holdsDenied || within(path, d.path)
	}
	if !holdsDenied {
		return r.add(path, access)
	}
	if err := r.add(path, unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read folder with a denied path: %w", err)
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue // what it leads to has rules of its own
		}
		if err := r.grant(filepath.Join(path, entry.Name()), access); err != nil {
			return err
		}
	}
	return nil
}

func (r *ruleset) add(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // it has gone, or cannot be reached anyway
	}
	defer unix.Close(fd) //nolint:errcheck // only a reference
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return nil // swapped since it was resolved
	default:
		access &= onFiles
	}
	if access &= r.handled; access == 0 {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)} //nolint:gosec // descriptors are small
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("add Landlock rule for %s: %w", path, errno)
	}
	return nil
}

// restrictThread puts the rules in force for this thread and the processes that
// it starts, for ever.
func (r *ruleset) restrictThread() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("enforce Landlock rules: %w", errno)
	}
	return nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }

// programFolders are the absolute folders of PATH, but none that holds a home.
func programFolders() []string {
	home, _ := os.UserHomeDir()
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return !filepath.IsAbs(dir) || home != "" && within(filepath.Clean(dir), filepath.Clean(home))
	})
}

// openSettings are the parts of /etc that every user of the machine may read:
// root, too, has no business with the others.
var openSettings = sync.OnceValue(func() []string {
	found, _ := openParts("/etc", 0)
	if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		found = append(found, target)
	}
	return found
})

// openParts returns the largest parts of a folder that everybody may read, and
// whether that is the whole folder.
func openParts(dir string, depth int) (parts []string, whole bool) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth > 8 {
		return nil, false
	}
	whole = true
	for _, entry := range entries {
		info, err := entry.Info()
		path := filepath.Join(dir, entry.Name())
		switch {
		case err != nil:
			whole = false
		case info.Mode()&fs.ModeSymlink != 0: // what it leads to has rules of its own
		case info.IsDir() && info.Mode()&0o5 == 0o5:
			below, all := openParts(path, depth+1)
			parts, whole = append(parts, below...), whole && all
		case info.Mode().IsRegular() && info.Mode()&0o4 != 0:
			parts = append(parts, path)
		default:
			whole = false
		}
	}
	if whole {
		return []string{dir}, true
	}
	return parts, false
}
