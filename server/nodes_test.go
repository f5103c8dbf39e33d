package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	nodes "github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/server"
)

// A node that is drained says so wherever somebody may look, until it is
// undrained.
func TestNodes_drainAndUndrain(t *testing.T) {
	t.Parallel()
	self := &nodes.Self{ID: "node-a", Version: "v1"}
	n := newNode(t, func(_ *holdfast.Config, c *server.Config) { c.Node = self })
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); nodes.New(n.rt, nil).Run(ctx, self) }()
	t.Cleanup(func() { end(); <-ended })
	type list struct{ Items []nodes.Node }
	until(n, "/v1/system/nodes", func(l list) bool { return len(l.Items) == 1 && l.Items[0].ID == "node-a" && !l.Items[0].Draining })
	shows := func(draining bool, ready int, line string) {
		t.Helper()
		until(n, "/v1/system/nodes", func(l list) bool { return len(l.Items) == 1 && l.Items[0].Draining == draining })
		if r := n.do("GET", "/readyz", request{key: "-"}); r.status != ready {
			t.Errorf("readyz: %d %s", r.status, r.body)
		}
		if info := want[struct {
			Node     string
			Draining bool
		}](t, n.do("GET", "/v1/system/info", request{}), 200); info.Draining != draining || info.Node != "node-a" {
			t.Errorf("%+v", info)
		}
		if r := n.do("GET", "/metrics", request{}); !strings.Contains(string(r.body), line) {
			t.Errorf("%s is missing", line)
		}
	}
	shows(false, 200, "holdfast_node_draining 0\n")
	for range 2 { // it sets a state
		want[struct{}](t, n.do("POST", "/v1/system/nodes/node-a/drain", request{}), 202)
	}
	shows(true, 503, "holdfast_node_draining 1\n")
	want[struct{}](t, n.do("POST", "/v1/system/nodes/node-a/undrain", request{}), 202)
	shows(false, 200, "holdfast_node_draining 0\n")
	refused(t, n.do("POST", "/v1/system/nodes/node-b/drain", request{}), 404, "not_found")
	// Whoever administers another tenant does not administer the nodes.
	other := n.key("other", apikey.Admin)
	refused(t, n.do("POST", "/v1/system/nodes/node-a/drain", request{key: other}), 404, "not_found")
	if l := want[list](t, n.do("GET", "/v1/system/nodes", request{key: other}), 200); len(l.Items) != 0 {
		t.Errorf("%+v", l)
	}
	end()
	<-ended
	until(n, "/v1/system/nodes", func(l list) bool { return len(l.Items) == 0 })
}
