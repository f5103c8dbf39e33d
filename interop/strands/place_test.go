package strands_test

import (
	"regexp"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/interop/strands"
)

func TestFolderName_golden(t *testing.T) {
	t.Parallel()
	agents := []string{"writer", "x", "x_router", "a:b", "ü/.."}
	for _, c := range []struct {
		place strands.Place
		want  string
	}{
		{strands.Place{Agent: "writer"}, "session_i_writer"},
		{strands.Place{Agent: "writer", Lane: strands.RouterLane}, "session_i_writer_router"},
		{strands.Place{Agent: "writer", Lane: strands.WorkerLane(12)}, "session_i_writer_worker_12"},
		{strands.Place{Agent: "a:b"}, "session_i_a%3Ab"},
		{strands.Place{Agent: "ü/.."}, "session_i_%C3%BC%2F.."},
		{strands.Place{Agent: "x_router"}, "session_i_x_router"},
		{strands.Place{Agent: "x", Lane: strands.RouterLane}, "session_i_x%5Frouter"}, // which is another agent's
		{strands.Place{Agent: "x_router", Lane: strands.RouterLane}, "session_i_x_router_router"},
	} {
		got := strands.FolderName("i", c.place, agents)
		if got != c.want {
			t.Errorf("%+v lies in %s, want %s", c.place, got, c.want)
		}
		if back := strands.ParseFolder("i", got, agents); back != c.place {
			t.Errorf("%s holds %+v, want %+v", got, back, c.place)
		}
	}
}

func TestParseFolder_ofTheOtherProgram(t *testing.T) {
	t.Parallel()
	agents := []string{"a:b", "100%"}
	for folder, want := range map[string]strands.Place{
		"session_i_a:b":            {Agent: "a:b"}, // it encodes nothing
		"session_i_100%":           {Agent: "100%"},
		"writer":                   {Agent: "writer"}, // documented
		"session_i_my_router":      {Agent: "my_router"},
		"session_i_a:b_worker_0":   {Agent: "a:b", Lane: "worker_0"},
		"session_i_a%3Ab_worker_0": {Agent: "a:b", Lane: "worker_0"},
		"session_i_a:b_worker_00":  {Agent: "a:b_worker_00"},
		"session_i_50%_off%4":      {Agent: "50%_off%4"},
		"session_i__router":        {Agent: "_router"},
	} {
		if got := strands.ParseFolder("i", folder, agents); got != want {
			t.Errorf("%s holds %+v, want %+v", folder, got, want)
		}
	}
}

var safeName = regexp.MustCompile(`^[A-Za-z0-9._%-]+$`)

func TestFolderName_anyPlaceComesBackAndHasItsOwnFolder(t *testing.T) {
	t.Parallel()
	property.Check(t, func(rt *property.T) {
		ending := property.SampledFrom([]string{"", "_router", "%5Frouter", "_worker_1"})
		name := property.OneOf(property.Custom(func(rt *property.T) string {
			return property.StringOf("a_:%", 1, 3).Draw(rt, "name") + ending.Draw(rt, "ending")
		}), property.StringN(1, 5))
		agents := property.DistinctOfN(name, 1, 5).Draw(rt, "agents")
		folders := map[string]strands.Place{}
		for _, agent := range agents {
			for _, lane := range []string{"", strands.RouterLane, strands.WorkerLane(1)} {
				place := strands.Place{Agent: agent, Lane: lane}
				folder := strands.FolderName("i", place, agents)
				if !safeName.MatchString(folder) {
					rt.Fatalf("%+v lies in %q", place, folder)
				}
				if other, taken := folders[folder]; taken {
					rt.Fatalf("%+v and %+v both lie in %s", place, other, folder)
				}
				folders[folder] = place
				if back := strands.ParseFolder("i", folder, agents); back != place {
					rt.Fatalf("%s holds %+v, want %+v", folder, back, place)
				}
			}
		}
	})
}
