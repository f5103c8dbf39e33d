/** A reader that may be called at any time: what changes while it reads is read once more after it. */
export function rereading(read: () => Promise<void>): () => Promise<void> {
  let reading = false
  let again = false
  return async () => {
    again = true
    if (reading) return
    reading = true
    while (again) {
      again = false
      await read()
    }
    reading = false
  }
}
