// A member of a consumer group by kafkajs: node member.cjs BOOTSTRAP TOPIC GROUP CLIENT_ID
// Writes a JSON object per line for what happens to it, and leaves the group at SIGTERM.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, group, clientId] = process.argv.slice(2)
const tell = (name, fields) => process.stdout.write(JSON.stringify({ name, ...fields }) + '\n')

const toStandardError = () => ({ namespace, label, log }) =>
  process.stderr.write(`${label} ${namespace} ${log.message} ${log.error || ''}\n`)
const kafka = new Kafka({
  clientId,
  brokers: bootstrap.split(','),
  logLevel: logLevel.INFO,
  logCreator: toStandardError,
})
// Between two heartbeats it waits for records, by default up to 5 s.
const waits = { heartbeatInterval: 500, maxWaitTimeInMs: 500 }
const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, ...waits })

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
  tell('joined', { topic, memberId: payload.memberId, partitions: payload.memberAssignment[topic] || [] })
)
consumer.on(consumer.events.CRASH, ({ payload }) => tell('crashed', { error: String(payload.error) }))

async function takeBatch({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, uncommittedOffsets }) {
  for (const message of batch.messages) {
    const { partition } = batch
    tell('record', { partition, offset: Number(message.offset), value: message.value.toString() })
    resolveOffset(message.offset)
  }
  await commitOffsetsIfNecessary(uncommittedOffsets())
  const offset = Number(batch.lastOffset()) + 1
  tell('committed', { partition: batch.partition, offset })
  await heartbeat()
}

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatch: takeBatch })
}

process.once('SIGTERM', async () => {
  await consumer.disconnect()
  tell('left')
  process.exit(0)
})
main().catch((error) => {
  tell('failed', { error: String(error) })
  process.exit(1)
})
