package strands

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Place says whose conversation it is: an agent's, in one lane. Agents have one
// lane of their own (""), one for routing ("router") and one for each worker
// ("worker_0" …), and see nothing of another lane.
type Place struct{ Agent, Lane string }

// RouterLane is the lane in which an agent chooses routes.
const RouterLane = "router"

// WorkerLane returns the lane of one worker.
func WorkerLane(i int) string { return "worker_" + strconv.Itoa(i) }

var lanePattern = regexp.MustCompile(`^(.+)(_|%5F)(router|worker_(?:0|[1-9][0-9]*))$`)

// FolderName returns the folder of a conversation inside AgentsDir. The agents are
// all those of the spec: where an agent's name and a lane would make the name of
// another agent, the lane is set off by %5F.
func FolderName(id string, p Place, agents []string) string {
	return sessionPrefix + id + "_" + p.folder(agents)
}

func (p Place) folder(agents []string) string {
	name := encodeName(p.Agent)
	if p.Lane == "" {
		return name
	}
	taken := func(agent string) bool { return encodeName(agent) == name+"_"+p.Lane }
	if slices.ContainsFunc(agents, taken) {
		return name + "%5F" + p.Lane
	}
	return name + "_" + p.Lane
}

// ParseFolder returns whose conversation a folder holds, for a session and the agents
// of its spec. Folders are named as FolderName does, as the other program does,
// which encodes nothing, or, in the documented layout, by the agent alone.
// Without a list of agents, a name that ends like a lane is an agent's.
func ParseFolder(id, folder string, agents []string) Place {
	name := strings.TrimPrefix(folder, sessionPrefix+id+"_")
	for _, agent := range agents {
		if name == encodeName(agent) {
			return Place{Agent: agent}
		}
	}
	if parts := lanePattern.FindStringSubmatch(name); parts != nil {
		agent := decodeName(parts[1])
		if slices.Contains(agents, agent) || len(agents) == 0 && parts[2] == "%5F" {
			return Place{Agent: agent, Lane: parts[3]}
		}
	}
	if slices.Contains(agents, name) {
		return Place{Agent: name}
	}
	return Place{Agent: decodeName(name)}
}

// encodeName writes bytes that a folder's name had better not have as %XX.
func encodeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// decodeName undoes encodeName. A name that is not encoded stays as it is.
func decodeName(name string) string {
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}
