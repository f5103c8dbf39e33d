//go:build unix

// Package pgserver starts a private PostgreSQL server from the installed binaries
// on its own socket, for tests and measurements.
package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Server is a running PostgreSQL. Unless it is volatile it acknowledges nothing
// before it is on disk, like a server in production.
type Server struct {
	bin, dir string
	as       *syscall.Credential // nil: the user of this process
	lifeline *os.File            // the server stops when it is closed
	keeper   *exec.Cmd
}

// Start starts the newest installed server with an empty database in a new folder
// below parent, or below the system's temporary folder if parent is empty. The
// caller stops it; at the latest it ends with the process.
func Start(parent string) (*Server, error) { return start(parent, "") }

// StartVolatile starts a server that does not wait for the disk. What it
// acknowledges outlives the server, but not the machine.
func StartVolatile(parent string) (*Server, error) {
	return start(parent, "fsync = off\nfull_page_writes = off\n")
}

func start(parent, settings string) (*Server, error) {
	s, err := newServer(parent)
	if err != nil {
		return nil, err
	}
	return s.orStop(s.begin(settings, func() error { return nil }))
}

// newServer makes the folder of a server.
func newServer(parent string) (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	as, err := unprivilegedUser()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "pg") // short: a socket's path has a limit
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, as: as}
	if err := s.own(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// orStop returns a server that has started, and removes one that has not.
func (s *Server) orStop(err error) (*Server, error) {
	if err == nil {
		return s, nil
	}
	if s.lifeline != nil {
		s.Stop()
	}
	return nil, errors.Join(err, os.RemoveAll(s.dir))
}

// StartPair starts a server and a standby that follows it synchronously: what the
// first acknowledges, both have. The caller stops both.
func StartPair(parent string) (primary, standby *Server, err error) {
	if primary, err = newServer(parent); err != nil {
		return nil, nil, err
	}
	if standby, err = newServer(parent); err != nil {
		_, err = primary.orStop(err)
		return nil, nil, err
	}
	if primary, err = primary.orStop(primary.begin("synchronous_standby_names = 'standby'\n", func() error { return standby.copyOf(primary) })); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(standby.dir))
	}
	settings := fmt.Sprintf("unix_socket_directories = '%s'\nsynchronous_standby_names = ''\nprimary_conninfo = 'user=holdfast application_name=standby host=%s'\n", standby.dir, primary.dir)
	if standby, err = standby.orStop(standby.launch(settings)); err != nil {
		primary.Stop()
		return nil, nil, err
	}
	return primary, standby, nil
}

// copyOf makes the files of a standby from those of a primary that does not run.
func (s *Server) copyOf(primary *Server) error {
	if err := s.run("/bin/cp", "-Rp", primary.data(), s.data()); err != nil {
		return err
	}
	return s.run("/bin/sh", "-c", `: > "$1/standby.signal"`, "sh", s.data())
}

// Promote makes a standby a server that writes.
func (s *Server) Promote() error { return s.control("promote") }

// Kill stops the server like a crash. It stays down.
func (s *Server) Kill() error { return s.control("stop", "-m", "immediate") }

// URL returns the address of the server.
func (s *Server) URL() string { return "postgres:///postgres?user=holdfast&host=" + s.dir }

// Restart stops the server like a crash and starts it again.
func (s *Server) Restart() error { return s.control("restart", "-m", "immediate") }

// RestartFast stops the server like an operator who does not wait for clients,
// and starts it again.
func (s *Server) RestartFast() error { return s.control("restart", "-m", "fast") }

// Stop stops the server, waits for its end and removes its files.
func (s *Server) Stop() {
	_ = s.lifeline.Close()
	_ = s.keeper.Wait()
	_ = os.RemoveAll(s.dir) // the keeper may not be allowed to remove the folder itself
}

// findBinaries returns the folder of the newest installed server.
func findBinaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if err != nil || len(found) == 0 {
		return "", errors.New("no PostgreSQL server is installed in /usr/lib/postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivilegedUser returns the user for the server: PostgreSQL refuses root.
func unprivilegedUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// own gives the folder to the server's user.
func (s *Server) own() error {
	if s.as == nil {
		return nil
	}
	return os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
}

// begin makes an empty database, lets copied copy its files, and starts the
// server with additional settings.
func (s *Server) begin(more string, copied func() error) error {
	if err := s.run("initdb", "-D", s.data(), "-U", "holdfast", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		return err
	}
	settings := fmt.Sprintf("listen_addresses = ''\nunix_socket_directories = '%s'\nmax_connections = 300\nfsync = on\n", s.dir)
	if err := s.appendConfig(settings); err != nil {
		return err
	}
	if err := copied(); err != nil {
		return err
	}
	return s.launch(more)
}

// launch starts the server with additional settings.
func (s *Server) launch(settings string) error {
	if err := s.appendConfig(settings); err != nil {
		return err
	}
	if err := s.watch(); err != nil {
		return err
	}
	return s.control("start")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) appendConfig(text string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// watch starts a process that stops the server and removes its files when this
// process ends for any reason.
func (s *Server) watch() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.keeper = exec.Command("/bin/sh", "-c", `cat; "$1/pg_ctl" -D "$2/data" -m immediate stop; rm -rf "$2"`, "sh", s.bin, s.dir) //nolint:noctx // it must outlive every context
	s.keeper.Stdin, s.keeper.Dir = read, "/"
	s.keeper.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	err = s.keeper.Start()
	_ = read.Close() // the keeper has its own
	s.lifeline = write
	return err
}

func (s *Server) control(what string, more ...string) error {
	return s.run("pg_ctl", append([]string{"-D", s.data(), "-w", "-t", "180", "-l", filepath.Join(s.dir, "log"), what}, more...)...)
}

// run runs a program of the server. Its output goes to a file: a started server
// would keep a pipe open.
func (s *Server) run(program string, args ...string) error {
	if !filepath.IsAbs(program) {
		program = filepath.Join(s.bin, program)
	}
	out, err := os.OpenFile(filepath.Join(s.dir, filepath.Base(program)+".out"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it has its own timeout
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	err = errors.Join(cmd.Run(), out.Close())
	if err != nil {
		output, readErr := os.ReadFile(out.Name())
		if errors.Is(readErr, fs.ErrNotExist) {
			readErr = nil
		}
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), errors.Join(err, readErr), output)
	}
	return nil
}
