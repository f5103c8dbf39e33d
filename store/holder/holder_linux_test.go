package holder_test

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/holder"
)

func TestHolder_deadOnlyWhenThatIsCertain(t *testing.T) {
	t.Parallel()
	me, err := holder.Name()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(me, "/")
	host, pid, start := parts[0], parts[1], parts[2]
	ticks, space, _ := strings.Cut(start, ".")
	zombie := exec.CommandContext(t.Context(), "/bin/true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zombie.Wait() })
	waitUntil(t, func() bool { return holder.Dead(host + "/" + strconv.Itoa(zombie.Process.Pid) + "/1." + space) })

	for name, want := range map[string]bool{
		me:                         false,
		me + "/worker-7":           false,
		host + "/4194305/" + start: true, // beyond the largest process id
		host + "/" + pid + "/1" + ticks + "." + space: true, // the id was given to a later process
		host + "/" + pid + "/1" + ticks + ".other":    false,
		host + "/4194305/1.other-boot.1":              false,
		"elsewhere/4194305/" + start:                  false,
		host + "/x/" + start:                          false,
		host + "/0/" + start:                          false,
		host + "/4194305":                             false,
		"":                                            false,
		"///":                                         false,
	} {
		if got := holder.Dead(name); got != want {
			t.Errorf("%q dead: %t, want %t", name, got, want)
		}
	}
}

// waitUntil looks again and again.
func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it never came")
		}
	}
}
