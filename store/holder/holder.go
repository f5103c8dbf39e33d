// Package holder names the process that holds a lease, so that a store on the
// same machine can tell a holder that died from one that lives, and need not
// wait for its lease to end.
package holder

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Name is this process as the holder of a lease: host/pid/start. A caller may
// add parts of its own after another slash.
func Name() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name lease holder: %w", err)
	}
	start, err := processStart(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("name lease holder: %w", err)
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), start), nil
}

// Dead reports a holder on this host whose process certainly is not running.
// When in doubt it lives: another host, a name of another form, or a system
// that does not tell.
func Dead(name string) bool {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 3 {
		return false
	}
	host, err := os.Hostname()
	if err != nil || host != parts[0] {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return false
	}
	return processGone(pid, parts[2])
}
