package tools

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type timeArguments struct {
	Format   string `json:"format,omitempty" jsonschema:"iso, unix or human; iso where it is left out"`
	Timezone string `json:"timezone,omitempty" jsonschema:"utc or local; utc where it is left out"`
}

func (b *Box) timeTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "current_time", Nature: tool.ReadOnly,
		Description: "The date and the time of day, in UTC or in the local time zone.",
	}, b.currentTime)
}

func (b *Box) currentTime(_ context.Context, in timeArguments) (string, error) {
	now := b.config.Now()
	switch in.Timezone {
	case "", "utc":
		now = now.UTC()
	case "local":
		now = now.Local()
	default:
		return "", &session.InvalidError{Field: "timezone", Reason: fmt.Sprintf("%q is not utc or local", in.Timezone)}
	}
	switch in.Format {
	case "", "iso":
		// Microseconds, or no fraction at all where there are none.
		if now.Nanosecond()/1000 == 0 {
			return now.Format("2006-01-02T15:04:05-07:00"), nil
		}
		return now.Format("2006-01-02T15:04:05.000000-07:00"), nil
	case "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	case "human":
		return now.Format("January 02, 2006 at 03:04:05 PM MST"), nil
	}
	return "", &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not iso, unix or human", in.Format)}
}
