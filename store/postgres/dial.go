package postgres

import (
	"context"
	"net"
	"time"
)

// dial returns a dialer whose connections notice a peer that is gone: probes
// find one that stays silent, and data that nobody acknowledges ends the
// connection within the limit.
func dial(limit time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: limit / 2, Interval: max(limit/6, time.Second), Count: 3},
		Control:         limitUnacknowledged(limit),
	}
	return d.DialContext
}
