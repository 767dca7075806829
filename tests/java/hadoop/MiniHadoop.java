import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN on loopback, until standard input ends; their client configuration is in the directory given. */
public final class MiniHadoop {
    public static void main(String[] arguments) {
        try {
            run(Path.of(arguments[0]));
            while (System.in.read() >= 0) {
                // what comes has no meaning
            }
        } catch (Throwable problem) {
            problem.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(Path directory) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, directory.resolve("dfs").toString());
        MiniDFSCluster dfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        dfs.waitActive();
        conf.set("fs.defaultFS", dfs.getURI().toString());
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        conf.setInt("yarn.nodemanager.resource.memory-mb", 4096);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 99);
        MiniYARNCluster yarn = new MiniYARNCluster("tests", 1, 1, 1);
        yarn.init(conf);
        yarn.start();
        yarn.waitForNodeManagersToConnect(60_000);
        Configuration core = new Configuration(false);
        core.set("fs.defaultFS", dfs.getURI().toString());
        write(core, directory.resolve("core-site.xml"));
        Configuration client = new Configuration(yarn.getConfig());
        client.unset("net.topology.node.switch.mapping.impl"); // a class that clients do not have
        write(client, directory.resolve("yarn-site.xml"));
        System.out.println("up at " + dfs.getURI());
    }

    private static void write(Configuration conf, Path file) throws IOException {
        try (OutputStream stream = Files.newOutputStream(file)) {
            conf.writeXml(stream);
        }
    }
}
