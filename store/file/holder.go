package file

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Holder names this process as the holder of a lease: host/pid/start. A
// caller may add further parts of its own after another slash. A file store
// replaces a holder of this form at once when its process, on this host, is
// dead; any other name holds until its time is over.
func Holder() (string, error) {
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

// dead reports a holder on this host whose process certainly is not running.
// When in doubt it lives.
func dead(holder string) bool {
	parts := strings.SplitN(holder, "/", 4)
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
