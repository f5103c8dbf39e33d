// Package holder names the process that holds a lease, so that a store on the
// same machine can see that the process has died, and need not wait for the
// lease to end.
package holder

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Name returns the name of this process as the holder of a lease: host/pid/start.
// A caller may append parts of its own after another slash.
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

// Dead reports a holder on this host whose process certainly does not run. It is
// false where that is not certain: for another host, for a name of another form,
// and on systems that cannot tell.
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
