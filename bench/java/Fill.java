import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Puts messages into a topic in batches, a thread per queue (but no more than --threads), as fast as it can.
 *
 * <p>It fills the source topics, and as a contender it is the ceiling: what the target takes when nothing
 * else runs.
 */
public final class Fill {
    private static final int LIMIT = 4 * 1024 * 1024 - 64 * 1024;

    private Fill() {
    }

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        String topic = options.need("topic");
        long total = Long.parseLong(options.need("messages"));
        int size = Integer.parseInt(options.need("size"));
        int batch = Math.max(1, Math.min(Integer.parseInt(options.get("batch", "64")), LIMIT / (size + 200)));
        DefaultMQProducer producer = new DefaultMQProducer("bench-fill");
        producer.setNamesrvAddr(options.need("namesrv"));
        producer.setInstanceName("fill-" + ProcessHandle.current().pid());
        producer.setVipChannelEnabled(true);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        int threads = Math.min(queues.size(), Integer.parseInt(options.get("threads", "8")));
        AtomicLong left = new AtomicLong(total);
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int first = i;
            Thread worker = new Thread(() -> {
                // Each thread has queues of its own, so that queues are filled evenly.
                int turn = first;
                byte[] body = new byte[size];
                for (int at = 0; at < size; at++) {
                    body[at] = (byte) ('a' + at % 26);
                }
                try {
                    while (true) {
                        long mine = Math.min(batch, left.getAndAdd(-batch));
                        if (mine <= 0) {
                            return;
                        }
                        List<Message> messages = new ArrayList<>((int) mine);
                        for (int n = 0; n < mine; n++) {
                            messages.add(new Message(topic, "bench", "key-" + first + "-" + n, body));
                        }
                        producer.send(messages, queues.get(turn));
                        turn = turn + threads < queues.size() ? turn + threads : first;
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            workers.add(worker);
            worker.start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        producer.shutdown();
        System.exit(0);
    }
}
