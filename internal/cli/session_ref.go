package cli

const refHelp = "REF is a session's id, the beginning of it (4 characters or more) or its name."
