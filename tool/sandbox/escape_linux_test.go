package sandbox_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain is also the hostile program: tests copy this binary into a workspace
// under the name of escape.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "escape" {
		if err := escape(os.Args[1], os.Args[2]); err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		fmt.Println("escaped")
		os.Exit(0)
	}
	if filepath.Base(os.Args[0]) == "unprivileged" {
		if err := runUnprivileged(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// escape tries what no program of a shell does. It ends by itself.
func escape(how, target string) error {
	switch how {
	case "tcp", "udp", "unix":
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(context.Background(), how, target)
		if err != nil {
			return err
		}
		if _, err = conn.Write([]byte("hello")); err != nil {
			return err
		}
		return conn.Close()
	case "socket":
		domain, err := strconv.Atoi(target)
		if err != nil {
			return err
		}
		_, err = unix.Socket(domain, unix.SOCK_STREAM, 0)
		return err
	case "loopback": // with itself
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", target)
		if err != nil {
			return err
		}
		return escape("tcp", listener.Addr().String())
	case "truncate":
		return os.Truncate(target, 0)
	case "link":
		return os.Link(target, "linked")
	case "keys":
		_, err := unix.AddKey("user", target, []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	case "leave": // leaves a process behind, in a session of its own, that keeps what it inherited
		left := exec.Command(target, "600") //nolint:noctx // it is to outlive everything
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		left.ExtraFiles = []*os.File{os.NewFile(9, "held")}
		return left.Start()
	case "fork":
		most, err := strconv.Atoi(target)
		if err != nil {
			return err
		}
		for range most {
			child := exec.Command("sleep", "20") //nolint:noctx // it ends by itself
			if err := child.Start(); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%s: no such attempt", how)
}

// addEscape copies the hostile program into a workspace.
func addEscape(t *testing.T, dir string) {
	t.Helper()
	addProgram(t, dir, "escape")
}

// addProgram copies this binary under the name that decides what it does.
func addProgram(t *testing.T, dir, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	// A process that another test starts meanwhile would inherit the open file,
	// and the system runs no program that is open for writing.
	syscall.ForkLock.RLock()
	err = os.WriteFile(filepath.Join(dir, name), raw, 0o700) //nolint:gosec // it is a program
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
