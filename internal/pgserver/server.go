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

// Server is a running PostgreSQL. It acknowledges nothing before it is on disk,
// like a server in production.
type Server struct {
	bin, dir string
	as       *syscall.Credential // nil: the user of this process
	lifeline *os.File            // the server stops when it is closed
	keeper   *exec.Cmd
}

// Start starts the newest installed server with an empty database in a new folder
// below parent, or below the system's temporary folder if parent is empty. The
// caller stops it; at the latest it ends with the process.
func Start(parent string) (*Server, error) {
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
	if err := s.begin(); err != nil {
		if s.lifeline != nil {
			s.Stop()
		}
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

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

func (s *Server) begin() error {
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if err := s.run("initdb", "-D", s.data(), "-U", "holdfast", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		return err
	}
	settings := fmt.Sprintf("listen_addresses = ''\nunix_socket_directories = '%s'\nmax_connections = 300\nfsync = on\n", s.dir)
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
	return s.run("pg_ctl", append([]string{"-D", s.data(), "-w", "-t", "60", "-l", filepath.Join(s.dir, "log"), what}, more...)...)
}

// run runs a program of the server. Its output goes to a file: a started server
// would keep a pipe open.
func (s *Server) run(program string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(s.dir, program+".out"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, program), args...) //nolint:noctx // it has its own timeout
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	err = errors.Join(cmd.Run(), out.Close())
	if err != nil {
		output, readErr := os.ReadFile(out.Name())
		if errors.Is(readErr, fs.ErrNotExist) {
			readErr = nil
		}
		return fmt.Errorf("%s: %w\n%s", program, errors.Join(err, readErr), output)
	}
	return nil
}
